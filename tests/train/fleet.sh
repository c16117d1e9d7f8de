# Data parallelism over devices of one process: two of PoCL's, or two workers on one.
#     sh tests/train/fleet.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# With TFM_BRIEF=1 fewer calls fail, and the device compiles without optimization.
. "$(dirname "$0")/ranks_common.sh"
plan="$files --max-steps 6 --eval-steps 3 --logging-steps 1 --dropout 0.2 --epsilon 1e-3 --valid-src valid.de --valid-tgt valid.en"
# spoilt NUMBER ARGUMENT...: as `run`, but the read of this number fails
spoilt() {
    number=$1
    shift
    (
        export OPENCL_LAYERS="$layer" TFM_FAULT_CALL="$number" TFM_FAULT_NAME=clEnqueueReadBuffer
        run train "$@"
        echo "$code" >code
    )
    code=$(cat code)
}

# shellcheck disable=SC2086 # words
begin one $plan --gradient-accumulation-steps 2
check "train on one device with two micro-batches" [ "$code" = 0 ]
# shellcheck disable=SC2086
begin two $plan --workers 2
check "train with two workers succeeds" [ "$code" = 0 ]
check "train with two workers has the losses of one with both micro-batches" near one two
check "train with two workers writes the files of one" tidy two
check "train with two workers says once what it does" [ "$(grep -c '2 replicas share each update of 2 micro-batches' err) $(wc -l <out)" = "1 1" ]
# shellcheck disable=SC2086
begin again $plan --workers 2 --shard-optimizer
check "train with two workers and sharded optimizer state gives the same parameters" both 0 alike two again
check "train with sharded optimizer state writes one file a worker" [ "$(shards again)" = "00000006-0-of-2 00000006-1-of-2 " ]
resume again --max-steps 9 --workers 2
check "train --resume of sharded state without sharding gives the same parameters" both 0 [ "$(shards again)" = "" ]
resume two --max-steps 9 --workers 2 --shard-optimizer
check "train --resume of unsharded state with sharding gives the same parameters" both 0 alike two again
resume two --max-steps 10
check "train --resume with one worker gives the same parameters" both 0 says err 'update 10'
if ! unlaunched; then
    # shellcheck disable=SC2086
    fresh 2 ranks $plan
    # shellcheck disable=SC2086
    begin two $plan --workers 2
    check "train with two MPI ranks gives the parameters of two workers" both 0 alike ranks two
    ranks 2 --resume ranks --max-steps 7 --workers 2
    check "train with workers in an MPI rank is an error" both 2 says err 'workers is for one process'
fi

# ---- Devices
binaries=$TFM_CACHE_DIR
devices=pocl,pocl
export POCL_DEVICES="pthread basic"
brief && export TFM_CACHE_DIR=off # the second device compiles its kernels again; a cache would add a build for binaries
if [ "$(TFM_DEVICE=$devices "$tfm" devices 2>/dev/null | grep -c '^\*')" = 2 ]; then
    # shellcheck disable=SC2086
    begin list $plan --device $devices
    check "train on two devices of --device" both 0 near one list
    (
        export TFM_DEVICE=$devices
        # shellcheck disable=SC2086
        begin all $plan
        echo "$code" >code
    )
    code=$(cat code)
    check "train on two devices of TFM_DEVICE gives the same parameters" both 0 alike list all
    resume list --device nothing,$devices
    check "train names a device that does not exist" one_sentence 1 '"nothing" matches no device'
else
    skip "train on two devices" "PoCL does not list two devices here"
fi
unset POCL_DEVICES
export TFM_CACHE_DIR="$binaries"

# ---- Load balancing
# shellcheck disable=SC2086
begin shares $plan --dropout 0 --workers 2 --balance 3,1
check "train with load balancing gives each replica its share" both 0 says err 'from update 1 on the replicas have 75 %, 25 % of the tokens'
check "train with load balancing prints the shares once" [ "$(grep -c 'of the tokens' err)" = 1 ]
# shellcheck disable=SC2086
begin plain $plan --dropout 0 --gradient-accumulation-steps 2
check "train with load balancing has the losses of one device" near shares plain
# shellcheck disable=SC2086
begin whole $plan --dropout 0 --max-steps 9 --lr-scheduler-type constant --workers 2 --balance 3,1
# shellcheck disable=SC2086
begin part $plan --dropout 0 --max-steps 6 --lr-scheduler-type constant --workers 2 --balance 3,1 --warmup-steps "$(value whole warmup-steps)"
sed 's/"balance": "3,1"/"balance": "by-speed"/' part/recipe.json >older
cp older part/recipe.json
resume part --max-steps 9 --workers 2
check "train --resume keeps the checkpoint's shares and gives the same parameters" both 0 alike part whole
check "train --resume says that it keeps the checkpoint's shares" says err 'from update 7 on the replicas have 75 %, 25 % of the tokens'
sed 's/"balance": null/"balance": "3,1"/' part/recipe.json >older
cp older part/recipe.json
resume part --max-steps 10 --workers 3 --gradient-accumulation-steps 3
check "train --resume with more workers rejects the checkpoint's shares" both 2 says err "balance is '3,1', and 3 replicas share an update"
rm -rf whole part
for ratio in 3 3,1,2 3,x 0,0 3,-1 3, ,1 "" by-speed; do
    # shellcheck disable=SC2086
    begin refused $plan --workers 2 --balance "$ratio"
    check "train rejects the shares '$ratio'" both 2 says err "balance is '$ratio', and"
done
# shellcheck disable=SC2086
begin refused $plan --device "${TFM_DEVICE:-0},nothing" --balance 3,1
check "train --balance on a device that does not exist names the device" one_sentence 1 '"nothing" matches no device'
# shellcheck disable=SC2086
begin refused $plan --balance 3,1
check "train --balance on one device says so" both 2 says err "balance is '3,1', and one device computes each update alone"

# ---- Failures
# shellcheck disable=SC2086
begin refused $plan --gradient-accumulation-steps 1 --workers 2
check "train rejects fewer micro-batches than devices" both 2 says err 'gradient-accumulation-steps is 1, and 2 replicas share each update: give at least 2'
# shellcheck disable=SC2086
begin refused $plan --workers 17
check "train rejects too many workers" both 2 says err 'workers is 17'
# shellcheck disable=SC2086
begin whole $plan --max-steps 8 --lr-scheduler-type constant --eval-steps 2 --workers 2
count_of() {
    sed -n 's/^{"type":"train","update":\([0-9]*\),.*/\1/p' "$1/train.jsonl" | tail -n 1
}
late=0
numbers="120 150 180 210 240 270"
brief && numbers="150 210 270"
for number in $numbers; do
    rm -rf broken
    # shellcheck disable=SC2086
    spoilt $number -o broken $small $plan --max-steps 8 --lr-scheduler-type constant --eval-steps 2 --workers 2
    if [ "$code" = 0 ] || [ ! -e broken/checkpoint.safetensors ]; then
        continue
    fi
    late=$((late + 1))
    check "train ends with an error when read $number fails on one device" one_last 1 .
    resume broken --workers 2
    check "train --resume after read $number failed gives the same parameters" both 0 alike broken whole
done
check "some of the failing reads come after a checkpoint" [ $late -ge 1 ]

# ---- Signals
# shellcheck disable=SC2086
launch -o stopped $small $plan --max-steps 100000 --patience 0 --workers 2 --shard-optimizer
wait_for_update stopped 2
kill -INT "$child"
wait "$child"
code=$?
check "train with two workers ends with a checkpoint after SIGINT" both 0 says err 'resume with: tfm train --resume stopped --workers 2 --shard-optimizer'
last=$(count_of stopped)
resume stopped --max-steps $((last + 2)) --workers 2 --shard-optimizer
check "train --resume with two workers after SIGINT succeeds" both 0 says err "update $((last + 2))"
echo "1..$count"
