# The example scripts for automatic restarts, under mock mpirun, srun and scontrol scripts.
#     sh tests/train/restarts.sh PROGRAM SOURCE_ROOT FAULT_LAYER
. "$(dirname "$0")/common.sh"
plan="$small $files --max-steps 40 --eval-steps 2 --logging-steps 1 --hold-out 0"
mkdir bin
# launcher NAME: a mock launcher of one rank, which is killed at its third update if the file `kill` exists, and stopped
# there if the file `stop` exists
launcher() {
    cat >"bin/$1" <<'END'
#!/bin/sh
echo "$0 $*" >>calls
while [ "$1" != tfm ]; do
    shift
done
"$@" &
child=$!
if [ -e kill ] || [ -e stop ]; then
    while kill -0 $child 2>/dev/null && ! grep -q '"type":"train","update":3' run/train.jsonl 2>/dev/null; do
        sleep 0.01
    done
    signal=KILL
    [ -e stop ] && signal=TERM
    rm -f kill stop
    kill -$signal $child
fi
wait $child
END
    chmod +x "bin/$1"
}
launcher mpirun
launcher srun
printf '#!/bin/sh\necho "scontrol $*" >>calls\n' >bin/scontrol
chmod +x bin/scontrol
ln -s "$tfm" bin/tfm
export PATH="$here/bin:$PATH" TFM_DEVICE="${TFM_DEVICE-}" PAUSE=0 SLURM_JOB_ID=7
example() { # example NAME ARGUMENT...
    name=$1
    shift
    sh "$root/apps/examples/$name" "$@" >out 2>err
    code=$?
}
# shellcheck disable=SC2086 # words
begin whole $plan
for script in train_slurm.sh train_hosts.sh; do
    check "$script is a valid shell script" sh -n "$root/apps/examples/$script"
done

# ---- A hosts file
printf 'node1 slots=2\nnode2 slots=1 # of two\n' >hosts
touch kill
# shellcheck disable=SC2086
example train_hosts.sh hosts 4 run $plan
check "the job script restarts the run after a rank was killed" [ "$code $(wc -l <calls)" = "0 2" ]
check "the job script restarts on the remaining slots" [ "$(grep -c -- '-n 3 --hostfile hosts' calls)" = 2 ]
check "a restarted run gives the same parameters" alike run whole
rm -rf run calls
example train_hosts.sh hosts 4 run --src missing --tgt text.en
check "the job script tries a run without progress three times" [ "$code $(wc -l <calls)" = "1 3" ]
rm -rf run calls
# shellcheck disable=SC2086
example train_hosts.sh hosts 4 run $plan --frobnicate
check "the job script tries a usage error once" [ "$code $(wc -l <calls)" = "2 1" ]

# ---- Slurm
for end in kill stop; do
    rm -rf run calls
    touch $end
    # shellcheck disable=SC2086
    example train_slurm.sh run $plan
    check "$end puts the job back into the queue" [ "$code $(grep -c '^scontrol requeue 7$' calls)" = "0 1" ]
    # shellcheck disable=SC2086
    SLURM_RESTART_COUNT=1 example train_slurm.sh run $plan
    check "$end does not put a finished job back into the queue" [ "$code $(grep -c '^scontrol' calls) $(grep -c -- '--resume run' calls)" = "0 1 1" ]
    check "a requeued job gives the same parameters" alike run whole
done
echo "1..$count"
