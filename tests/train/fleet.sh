# Several devices of one process that share updates: two of PoCL's, or two workers on one.
#     sh tests/train/fleet.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# With TFM_BRIEF=1 fewer calls fail, and the device compiles without optimization.
. "$(dirname "$0")/ranks_common.sh"
plan="$files --updates 6 --valid-every 3 --report-every 1 --dropout 0.2 --epsilon 1e-3 --valid-src valid.de --valid-tgt valid.en"
# spoilt NUMBER ARGUMENT...: as `run`, and the read of this number fails
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
begin one $plan --accumulate 2
check "one device, of two batches an update" [ "$code" = 0 ]
# shellcheck disable=SC2086
begin two $plan --workers 2
check "two workers" [ "$code" = 0 ]
check "have the updates of one with both batches" near one two
check "write what one writes" tidy two
check "and say once what they do" [ "$(grep -c '2 devices share each update, of 2 batches' err) $(wc -l <out)" = "1 1" ]
# shellcheck disable=SC2086
begin again $plan --workers 2 --shard
check "the same again, each with a part of the state: the same bits" both 0 alike two again
check "which lies in a file of each" [ "$(shards again)" = "00000006-0-of-2 00000006-1-of-2 " ]
resume again --updates 9 --workers 2
check "going on, each with all of it" both 0 [ "$(shards again)" = "" ]
resume two --updates 9 --workers 2 --shard
check "or the other way: the same bits" both 0 alike two again
resume two --updates 10
check "or alone" both 0 says err 'update 10'
if ! unlaunched; then
    # shellcheck disable=SC2086
    fresh 2 ranks $plan
    # shellcheck disable=SC2086
    begin two $plan --workers 2
    check "two ranks of MPI have the bits of two workers" both 0 alike ranks two
    ranks 2 --resume ranks --updates 7 --workers 2
    check "a rank has no workers: one sentence" both 2 says err 'workers is for one process'
fi

# ---- Devices
binaries=$TFM_CACHE_DIR
devices=pocl,pocl
export POCL_DEVICES="pthread basic"
brief && export TFM_CACHE_DIR=off # the second device's kernels are compiled anew, and would be again for binaries
if [ "$(TFM_DEVICE=$devices "$tfm" devices 2>/dev/null | grep -c '^\*')" = 2 ]; then
    # shellcheck disable=SC2086
    begin list $plan --device $devices
    check "two devices by name" both 0 near one list
    (
        export TFM_DEVICE=$devices
        # shellcheck disable=SC2086
        begin all $plan
        echo "$code" >code
    )
    code=$(cat code)
    check "or by TFM_DEVICE: the same bits" both 0 alike list all
    resume list --device nothing,$devices
    check "a device that there is not: one sentence" one_sentence 1 '"nothing" matches no device'
else
    skip "two devices" "PoCL does not list two devices here"
fi
unset POCL_DEVICES
export TFM_CACHE_DIR="$binaries"

# ---- Shares
# shellcheck disable=SC2086
begin shares $plan --dropout 0 --workers 2 --deal 3,1
check "shares: each device has so much" both 0 says err 'from update 1 on the devices have 75 %, 25 % of the tokens'
check "which is said once" [ "$(grep -c 'of the tokens' err)" = 1 ]
# shellcheck disable=SC2086
begin plain $plan --dropout 0 --accumulate 2
check "and the updates are those of one device" near shares plain
# shellcheck disable=SC2086
begin whole $plan --dropout 0 --updates 9 --schedule constant --workers 2 --deal 3,1
# shellcheck disable=SC2086
begin part $plan --dropout 0 --updates 6 --schedule constant --workers 2 --deal 3,1 --warmup "$(value whole warmup)"
sed 's/"deal": "3,1"/"deal": "by-speed"/' part/recipe.json >older
cp older part/recipe.json
resume part --updates 9 --workers 2
check "a resumed run keeps the checkpoint's shares, also where its recipe measured them: the same bits" both 0 alike part whole
check "and says so" says err 'from update 7 on the devices have 75 %, 25 % of the tokens'
sed 's/"deal": null/"deal": "3,1"/' part/recipe.json >older
cp older part/recipe.json
resume part --updates 10 --workers 3 --accumulate 3
check "but not where there are more devices: one sentence" both 2 says err "deal is '3,1', and an update is shared by 3"
rm -rf whole part
for deal in 3 3,1,2 3,x 0,0 3,-1 3, ,1 "" by-speed; do
    # shellcheck disable=SC2086
    begin refused $plan --workers 2 --deal "$deal"
    check "shares '$deal' are none: one sentence" both 2 says err "deal is '$deal', and"
done

# ---- What fails
# shellcheck disable=SC2086
begin refused $plan --accumulate 1 --workers 2
check "fewer batches than devices: one sentence" both 2 says err 'an update has 1 batches, --accumulate, and 2 devices'
# shellcheck disable=SC2086
begin refused $plan --workers 17
check "too many workers: one sentence" both 2 says err 'workers is 17'
# shellcheck disable=SC2086
begin whole $plan --updates 8 --schedule constant --valid-every 2 --workers 2
count_of() {
    sed -n 's/^{"type":"train","update":\([0-9]*\),.*/\1/p' "$1/train.jsonl" | tail -n 1
}
late=0
numbers="120 150 180 210 240 270"
brief && numbers="150 210 270"
for number in $numbers; do
    rm -rf broken
    # shellcheck disable=SC2086
    spoilt $number -o broken $small $plan --updates 8 --schedule constant --valid-every 2 --workers 2
    if [ "$code" = 0 ] || [ ! -e broken/checkpoint.safetensors ]; then
        continue
    fi
    late=$((late + 1))
    check "read $number fails on one device: the run ends in a sentence" one_last 1 .
    resume broken --workers 2
    check "and goes on from its checkpoint, to the same bits" both 0 alike broken whole
done
check "some failed after a checkpoint" [ $late -ge 1 ]

# ---- A signal
# shellcheck disable=SC2086
launch -o stopped $small $plan --updates 100000 --patience 0 --workers 2 --shard
wait_for_update stopped 2
kill -INT "$child"
wait "$child"
code=$?
check "Ctrl-C: the run ends in good order" both 0 says err 'go on with: tfm train --resume stopped --workers 2 --shard'
last=$(count_of stopped)
resume stopped --updates $((last + 2)) --workers 2 --shard
check "and goes on" both 0 says err "update $((last + 2))"
echo "1..$count"
