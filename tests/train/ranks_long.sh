# Long tests of MPI ranks: resumed with fewer and with more, killed at any instant, and with 16-bit gradients over many
# updates.
#     sh tests/train/ranks_long.sh PROGRAM SOURCE_ROOT FAULT_LAYER
. "$(dirname "$0")/ranks_common.sh"
plan="$files --logging-steps 1 --dropout 0.2 --epsilon 1e-3 --valid-src valid.de --valid-tgt valid.en --patience 0"

if unlaunched; then
    echo "1..$count"
    exit
fi

# ---- Four, two, four
# phases DIR OPTION OPTION OPTION: three starts of one run; "-" is no option
phases() {
    dir=$1 updates=0 good=yes
    shift
    for world in 4 2 4; do
        updates=$((updates + 4))
        option=$1
        shift
        [ "$option" = - ] && option=
        if [ $updates = 4 ]; then
            # shellcheck disable=SC2086 # words
            fresh 4 "$dir" $plan --eval-steps 4 --warmup-steps 4 --lr-scheduler-type constant --gradient-accumulation-steps 4 --max-steps $updates $option
        else
            # shellcheck disable=SC2086
            ranks $world --resume "$dir" --max-steps $updates $option
        fi
        [ "$code" = 0 ] || good=no
    done
}
phases whole - - -
check "train on four ranks, resumed on two and on four again, finishes" [ $good = yes ]
for plans in "--shard-optimizer --shard-optimizer --shard-optimizer" "--shard-optimizer - --shard-optimizer" "- --shard-optimizer -"; do
    # shellcheck disable=SC2086
    phases cut $plans
    check "train on ranks with $plans finishes" [ $good = yes ]
    check "train on ranks with $plans gives the same parameters and reports" alike whole cut
    rm -rf cut
done

# ---- Killed
delays() { # COUNT: seconds, about the time of a start and some updates
    awk -v count="$1" -v seed="${NIGHTLY_SEED:-1}" \
        'BEGIN { srand(seed); for (i = 0; i < count; i++) printf "%.2f %d\n", 0.3 + 2.5 * rand(), 1 + int(2 * rand()) }'
}
few="$files --max-steps 40 --eval-steps 1 --logging-steps 1 --hold-out 3 --buffer-size 70 --average 2 --patience 0"
# shellcheck disable=SC2086
fresh 2 long $few
check "train on ranks with frequent checkpoints" [ "$code" = 0 ]
begin() {
    rm -rf part
    # shellcheck disable=SC2086
    mpirun -n 2 "$tfm" train -o part $small $few --shard-optimizer >out 2>err &
    child=$!
    wait_for_update part 1
}
begin
# A finished run is compared and another begun, until twenty have been killed before their end.
kills=0 late=0 silent=0 broken=0 ended=0 other=0
for step in $(delays 80 | tr ' ' ,); do
    [ $kills -lt 20 ] || break
    sleep "${step%,*}"
    kill_rank "${step#*,}"
    if [ "$code" = 0 ]; then
        ended=$((ended + 1))
        alike part long || other=$((other + 1))
        begin
        continue
    fi
    kills=$((kills + 1))
    [ "$seconds" -lt 60 ] || late=$((late + 1))
    # before a rank has joined, the message says only that it is gone; on a busy machine both messages appear
    grep -qE 'exited on signal 9|process returned$' err || {
        silent=$((silent + 1))
        sed 's/^/# /' err
    }
    ! grep -q '^tfm: ' err || broken=$((broken + 1))
    mpirun -n 2 "$tfm" train --resume part --shard-optimizer >out 2>err &
    child=$!
done 2>stderr
wait "$child"
code=$?
echo "# $kills kills before the end, and $ended runs finished"
check "train on ranks ends within a minute after each of twenty SIGKILLs" [ $kills = 20 -a $late = 0 ]
check "train on ranks prints no other error after SIGKILL than mpirun's" [ $silent = 0 -a $broken = 0 ]
check "train --resume on ranks after SIGKILLs gives the same parameters" both 0 [ $other = 0 ]
check "train --resume on ranks after the last SIGKILL gives the same parameters" both 0 alike part long
check "train --resume on ranks after SIGKILLs leaves no temporary file" [ "$(tidy part && shards part)" = "00000040-0-of-2 00000040-1-of-2 " ]

# ---- 16-bit gradients
# near_end DIR: final validation loss within 2 % of that with 32-bit gradients
last() {
    sed -n 's/^{"type":"valid",.*"nll":\([0-9.]*\),.*/\1/p' "$1/train.jsonl" | tail -n 1
}
many="$plan --max-steps 200 --eval-steps 200 --dropout 0.1"
# shellcheck disable=SC2086
fresh 2 f32 $many
check "train on ranks for 200 updates" [ "$code" = 0 ]
for dtype in f16 bf16; do
    # shellcheck disable=SC2086
    fresh 2 $dtype $many --comm-dtype $dtype
    check "train --comm-dtype $dtype has a validation loss within 2 % of fp32" [ "$code" = 0 -a \
        "$(echo "$(last f32) $(last $dtype)" | awk '{ print ($2 / $1 - 1) ^ 2 < 4e-4 }')" = 1 ]
    echo "# $(last f32) $(last $dtype)"
done
echo "1..$count"
