# Data parallelism over MPI ranks on one device.
#     sh tests/train/ranks.sh PROGRAM SOURCE_ROOT FAULT_LAYER
. "$(dirname "$0")/ranks_common.sh"
plan="$files --max-steps 6 --eval-steps 3 --logging-steps 1 --dropout 0.2 --epsilon 1e-3 --valid-src valid.de --valid-tgt valid.en"

if ! ldd "$tfm" | grep -q libmpi; then
    # shellcheck disable=SC2086 # words
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 run train -o alone $plan
    check "train --ranks without MPI is an error" one_sentence 1 'was built without MPI'
    check "train --ranks without MPI leaves nothing" [ ! -e alone ]
fi
if unlaunched; then
    echo "1..$count"
    exit
fi

# shellcheck disable=SC2086
begin one $plan --gradient-accumulation-steps 2
check "train on one rank with two micro-batches" [ "$code" = 0 ]
# shellcheck disable=SC2086
fresh 1 launched $plan --gradient-accumulation-steps 2
check "train under mpirun with one rank gives the same parameters" both 0 alike one launched
# shellcheck disable=SC2086
fresh 2 two $plan
check "train on two ranks succeeds" [ "$code" = 0 ]
check "train on two ranks has the losses of one with both micro-batches" near one two
check "train on two ranks writes the files of one" tidy two
check "train on two ranks says once what it does" [ "$(grep -c 'ranks share each update of 2 micro-batches' err) $(wc -l <out)" = "1 1" ]
# shellcheck disable=SC2086
other "--gradient-checkpointing --device ${TFM_DEVICE:-0}" -o again $small $plan
check "train on two ranks repeated with per-rank options gives the same parameters" both 0 alike two again
if [ "$(TFM_DEVICE=all "$tfm" devices | grep -c '^\*')" = 1 ]; then
    named=${TFM_DEVICE-}
    export TFM_DEVICE=all
    # shellcheck disable=SC2086
    fresh 2 all $plan
    check "train on two ranks of one device gives the same parameters" alike two all
    [ -n "$named" ] && TFM_DEVICE=$named || unset TFM_DEVICE
fi

# shellcheck disable=SC2086
fresh 2 part $plan --max-steps 3 --lr-scheduler-type constant
resume part --max-steps 6
check "train --resume of two ranks with one rank succeeds" both 0 says err 'update 6'
# shellcheck disable=SC2086
begin whole $plan --lr-scheduler-type constant --gradient-accumulation-steps 2 --warmup-steps "$(value part warmup-steps)"
check "train --resume of two ranks with one rank has the losses of one" near part whole
ranks 2 --resume part --max-steps 9
check "train --resume of one rank with two ranks gives the same parameters" both 0 says err 'update 9'

# shellcheck disable=SC2086
TFM_PROFILE=$here/trace.json fresh 2 traced $plan --max-steps 2
check "train --trace writes a trace for each rank with its communication" both 0 python3 -c '
import json
for name in ("trace.json", "trace-rank1.json"):
    events = [e for e in json.load(open(name))["traceEvents"] if e["ph"] == "X"]
    comm = [e for e in events if e["name"].startswith("all-reduce: ")]
    device = [e for e in events if e["tid"] == 1]
    assert len(comm) >= 4 and len(device) > len(comm), (len(comm), len(device))
    assert device[0]["ts"] <= comm[0]["ts"] <= device[-1]["ts"] + device[-1]["dur"], name'

# ---- Sharded optimizer state, and 16-bit gradients
# shellcheck disable=SC2086
fresh 2 shards $plan --shard-optimizer
check "train on two ranks with sharded optimizer state gives the same parameters" both 0 alike two shards
check "train on two ranks with sharded optimizer state writes one file a rank" [ "$(shards shards)$(shards two)" = "00000006-0-of-2 00000006-1-of-2 " ]
check "train on two ranks with sharded optimizer state writes no other file" tidy shards
ranks 2 --resume shards --max-steps 9
check "train --resume of sharded ranks without sharding gives the same parameters" [ "$code" = 0 -a "$(shards shards)" = "" ]
ranks 2 --resume two --max-steps 9 --shard-optimizer
check "train --resume of unsharded ranks with sharding gives the same parameters" both 0 alike two shards
resume two --max-steps 10
check "train --resume of sharded ranks with one rank gives the same parameters" both 0 says err 'update 10'
check "train on two ranks sends the same number of bytes in every update" [ "$(sent again | sort -u | wc -l) $(sent again | wc -l)" = "1 6" ]
for dtype in f16 bf16; do
    # shellcheck disable=SC2086
    fresh 2 $dtype $plan --comm-dtype $dtype
    check "train --comm-dtype $dtype sends half as many bytes" [ $(($(sent $dtype | head -n 1) * 100 / $(sent again | head -n 1))) -le 51 ]
    check "train --comm-dtype $dtype has losses near those of fp32" [ "$code" = 0 -a "$(paste "$dtype/train.jsonl" again/train.jsonl |
        sed -n 's/.*"type":"train".*"loss":\([0-9.]*\),.*"loss":\([0-9.]*\),.*/\1 \2/p' |
        awk '{ seen++; far += ($1 / $2 - 1) ^ 2 > 1e-4 } END { print seen, far + 0 }')" = "6 0" ]
done

# ---- Load balancing
# shellcheck disable=SC2086
fresh 2 shares $plan --dropout 0 --balance 3,1
check "train on ranks with load balancing gives each rank its share" both 0 says err 'from update 1 on the ranks have 75 %, 25 % of the tokens'
# shellcheck disable=SC2086
begin plain $plan --dropout 0 --gradient-accumulation-steps 2
check "train on ranks with load balancing has the losses of one rank" near shares plain
ranks 2 --resume shares --max-steps 8
check "train --resume keeps the shares of the ranks" both 0 says err 'from update 7 on the ranks have 75 %, 25 % of the tokens'
fresh 2 refused --src text.de --tgt text.en --balance 3,1,2
check "train rejects shares for more ranks than there are" told "balance is '3,1,2', and 2 replicas share an update"

# ---- Failures
# shellcheck disable=SC2086
fresh 2 refused $plan --gradient-accumulation-steps 1
check "train rejects fewer micro-batches than ranks" told '--gradient-accumulation-steps is 1, and 2 ranks share each update'
fresh 2 refused --src missing --tgt text.en
check "train on ranks names a file that one rank does not have" told 'cannot read --src missing'
# shellcheck disable=SC2086
other '--gradient-accumulation-steps 3 --subword-alpha 0.1' -o refused $small $plan
check "train on ranks names options that differ between ranks" both 1 told 'rank 1 has other options than rank 0 (--subword-alpha, --gradient-accumulation-steps): '
# shellcheck disable=SC2086
other --frobnicate -o refused $small $plan
check "train on ranks ends both when one has an unknown option" both 2 told 'train: rank 1: there is no option --frobnicate'
# shellcheck disable=SC2086
other --help -o refused $small $plan
check "train on ranks ends both when one has --help" both 1 told 'rank 1 has other options than rank 0 (--help)'
# shellcheck disable=SC2086
other '--device nowhere' -o refused/deep $small $plan
check "train on ranks names a device that one rank does not have" both 1 told "rank 1: .*nowhere"
check "train on ranks that is rejected leaves no directory" [ ! -e refused ]
cat >spoil <<'END'
#!/bin/sh
# The second rank fails at its 400th launch.
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
    export OPENCL_LAYERS="$layer" TFM_FAULT_CALL=400 TFM_FAULT_NAME=clEnqueueNDRangeKernel TFM_FAULT_DEAD=1
fi
exec "$@"
END
chmod +x spoil
export layer
# shellcheck disable=SC2086
mpirun -n 2 ./spoil "$tfm" train -o spoilt $small $plan >out 2>err
code=$?
check "train on ranks ends both when a device fails" [ "$code" != 0 ]
check "train on ranks prints one error when a device fails" told 'rank 1: update'

# ---- A killed rank
# shellcheck disable=SC2086
mpirun -n 2 "$tfm" train -o killed $small $plan --shard-optimizer --max-steps 100000 --patience 0 >out 2>err &
child=$!
wait_for_update killed 4
kill_rank 2
check "train on ranks ends within a minute when a rank is killed" [ "$code" != 0 -a "$seconds" -lt 60 ]
check "train on ranks names the signal that killed a rank" [ "$(grep -c 'exited on signal 9' err)" = 1 ]
last=$(sed -n 's/^{"type":"train","update":\([0-9]*\),.*/\1/p' killed/train.jsonl | tail -n 1)
resume killed --max-steps $((last + 2))
check "train on ranks has a whole checkpoint after a rank was killed" both 0 says err "update $((last + 2))"

# ---- Signals
# shellcheck disable=SC2086
mpirun -n 2 "$tfm" train -o stopped $small $plan --max-steps 100000 --patience 0 >out 2>err &
child=$!
wait_for_update stopped 2
kill -USR1 "$(pgrep -P "$child" | tail -n 1)" # to the second of them
wait "$child"
code=$?
check "train on ranks ends all with a checkpoint after SIGUSR1 to one" both 0 says err 'resume with: mpirun -n 2 tfm train --resume stopped'
echo "1..$count"
