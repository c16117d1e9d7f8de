# Several ranks that share updates, by MPI, on one device.
#     sh tests/train/ranks.sh PROGRAM SOURCE_ROOT FAULT_LAYER
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export TMPDIR="$here" # where Open MPI keeps its sessions
plan="$files --updates 6 --valid-every 3 --report-every 1 --dropout 0.2 --epsilon 1e-3 --valid-src valid.de --valid-tgt valid.en"

if ! ldd "$tfm" | grep -q libmpi; then
    # shellcheck disable=SC2086 # words
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 run train -o alone $plan
    check "without MPI the first of two ranks says so" one_sentence 1 'was built without MPI'
    check "and leaves nothing" [ ! -e alone ]
    skip "several ranks" "this tfm was built without MPI"
    echo "1..$count"
    exit
fi
if ! command -v mpirun >/dev/null; then
    skip "several ranks" "there is no mpirun"
    echo "1..$count"
    exit
fi
ranks() { # ranks NUMBER ARGUMENT...
    world=$1
    shift
    mpirun -n "$world" "$tfm" train "$@" >out 2>err
    code=$?
}
# fresh NUMBER DIR ARGUMENT...: a new run of the small model
fresh() {
    world=$1 dir=$2
    shift 2
    # shellcheck disable=SC2086 # words
    ranks "$world" -o "$dir" $small "$@"
}
# near DIR DIR: the same updates and losses, but for rounding
near() {
    for folder in "$1" "$2"; do
        sed -n 's/^{"type":"train","update":\([0-9]*\),.*"loss":\([0-9.]*\),.*"gradient_norm":\([0-9.]*\),.*/\1 \2 \3/p' \
            "$folder/train.jsonl" >"losses-$folder"
    done
    [ -s "losses-$1" ] && [ "$(wc -l <"losses-$1")" = "$(wc -l <"losses-$2")" ] &&
        paste "losses-$1" "losses-$2" | awk '$1 != $4 || ($2 - $5) ^ 2 > 1e-7 || ($3 - $6) ^ 2 > 1e-5 { exit 1 }'
}
told() { # told SENTENCE: of the program's own lines one has it, and no other begins so
    [ "$(grep -c '^tfm' err)" = 1 ] && grep -q "^tfm.*$1" err
}

# shellcheck disable=SC2086
begin one $plan --accumulate 2
check "one rank, of two batches an update" [ "$code" = 0 ]
# shellcheck disable=SC2086
fresh 2 two $plan
check "two ranks" [ "$code" = 0 ]
check "have the updates of one with both batches" near one two
check "write what one writes" tidy two
check "and say once what they do" [ "$(grep -c 'ranks share each update, of 2 batches' err) $(wc -l <out)" = "1 1" ]
# shellcheck disable=SC2086
fresh 2 again $plan
check "the same again, to the bit" alike two again

# shellcheck disable=SC2086
fresh 2 part $plan --updates 3 --schedule constant
resume part --updates 6
check "two ranks, then one" both 0 says err 'update 6'
# shellcheck disable=SC2086
begin whole $plan --schedule constant --accumulate 2 --warmup "$(value part warmup)"
check "have the updates of one" near part whole
ranks 2 --resume part --updates 9
check "and two ranks again" both 0 says err 'update 9'

# ---- What fails
# shellcheck disable=SC2086
fresh 2 refused $plan --accumulate 1
check "fewer batches than ranks: one sentence" told 'an update has 1 batches, --accumulate, and 2 ranks'
fresh 2 refused --src missing --tgt text.en
check "a file is missing: one sentence" told 'cannot read missing'
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
check "a device fails: its rank says so, and both end" [ "$code" != 0 ]
check "in one sentence" told 'rank 1: update'

# ---- A rank that dies
# shellcheck disable=SC2086
mpirun -n 2 "$tfm" train -o killed $small $plan --updates 100000 --patience 0 >out 2>err &
child=$!
wait_for_update killed 4
begun=$(date +%s)
kill -9 "$(pgrep -P "$child" | tail -n 1)"
wait "$child"
code=$?
check "a rank is killed: the run ends within a minute" [ "$code" != 0 ] && [ $(($(date +%s) - begun)) -lt 60 ]
last=$(sed -n 's/^{"type":"train","update":\([0-9]*\),.*/\1/p' killed/train.jsonl | tail -n 1)
resume killed --updates $((last + 2))
check "its checkpoint is whole" both 0 says err "update $((last + 2))"

# ---- A signal
# shellcheck disable=SC2086
mpirun -n 2 "$tfm" train -o stopped $small $plan --updates 100000 --patience 0 >out 2>err &
child=$!
wait_for_update stopped 2
kill -USR1 "$(pgrep -P "$child" | tail -n 1)" # to the second of them
wait "$child"
code=$?
check "SIGUSR1 to one: all end in good order" both 0 says err 'go on with: mpirun -n 2 tfm train --resume stopped'
echo "1..$count"
