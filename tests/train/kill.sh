# tfm train: a run that is killed repeatedly.
. "$(dirname "$0")/common.sh"

# Some kills hit a write, since the run writes after each update.
delays() { # COUNT: seconds below one
    awk -v count="$1" 'BEGIN { srand(); for (i = 0; i < count; i++) printf "%.3f\n", 0.05 + 0.9 * rand() }'
}
plan="$files --max-steps 40 --eval-steps 1 --logging-steps 1 --hold-out 3 --buffer-size 70 --average 2 --patience 0"
# shellcheck disable=SC2086
begin whole $plan
check "train with frequent validation" [ "$code" = 0 ]
rm -rf part
# shellcheck disable=SC2086
launch -o part $small $plan
wait_for_update part 1
kills=0
times=10
brief && times=6
for delay in $(delays $times); do
    kill -KILL $child
    wait $child
    [ $? = 137 ] && kills=$((kills + 1))
    if [ -e part/config.json ]; then
        "$tfm" info part >out 2>err || echo "after $kills kills: $(cat err)" >>broken
    fi
    launch --resume part
    sleep "$delay"
done 2>stderr
wait $child
code=$?
check "a model can be opened after each SIGKILL of train" [ ! -e broken ]
check "train --resume after SIGKILLs gives the same parameters" both 0 alike part whole
check "SIGKILL ended train before its end" [ $kills -ge 2 ]
check "train --resume after SIGKILLs leaves no temporary file" [ "$(tidy part && ls part/snapshots | tr '\n' ' ')" = \
    "00000039.safetensors 00000040.safetensors " ]

echo "1..$count"
