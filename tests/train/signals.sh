# tfm train: SIGTERM, SIGINT and SIGHUP at any time, and resuming. With TFM_BRIEF=1 two of the signals.
. "$(dirname "$0")/common.sh"

plan="$files --max-steps 60 --eval-steps 10 --logging-steps 1 --dropout 0.1 --buffer-size 70 --gradient-accumulation-steps 2 --average 3"
# shellcheck disable=SC2086
begin whole $plan
check "train with validations and snapshots" [ "$code" = 0 -a "$(ls whole/snapshots | tr '\n' ' ')" = \
    "00000040.safetensors 00000050.safetensors 00000060.safetensors " ]
rendered=
renders && rendered=yes
signals="TERM INT HUP"
brief && signals="TERM HUP" # fleet.sh tests INT
for signal in $signals; do
    rm -rf part
    # shellcheck disable=SC2086
    launch -o part $small $plan
    wait_for_update part 13
    kill -$signal $child
    [ $signal = HUP ] && kill -$signal $child # a closed terminal
    wait $child
    code=$?
    check "train says how to resume after SIG$signal" both 0 says err \
        '^stopped after update [1-5][0-9]; resume with: tfm train --resume part$'
    check "train prints nothing on standard output after SIG$signal" [ ! -s out ]
    check "train writes a checkpoint at the update of SIG$signal" [ "$(sed -n 's/^stopped after update \([0-9]*\);.*/\1/p' err)" = \
        "$(head -c 4000 part/checkpoint.safetensors | sed -n 's/.*"update": *"\([0-9]*\)".*/\1/p')" ]
    if [ "$rendered" ]; then
        check "train renders loss curves after SIG$signal" [ -s part/curves.svg ]
    else
        skip "train renders loss curves after SIG$signal" "cannot render pictures"
    fi
    (cd part/snapshots && "$tfm" train --resume .. >../../out 2>../../err)
    code=$?
    check "train --resume from another directory after SIG$signal gives the same parameters" both 0 alike part whole
done

# During a validation, in a folder name that needs shell quoting.
for i in $(seq 60); do cat valid.tsv; done >long.tsv
plan="$files --max-steps 10 --eval-steps 5 --logging-steps 1 --average 2 --valid-tsv long.tsv --valid-beam-size 8"
# shellcheck disable=SC2086
begin whole $plan
rm -rf "it's"
# shellcheck disable=SC2086
launch -o "it's" $small $plan
wait_for_update "it's" 5
kill -TERM $child
wait $child
code=$?
check "SIGTERM during a validation interrupts it" both 0 says err '^stopped after update 5; resume with: '
check "SIGTERM during a validation leaves no report of it" [ "$(reports valid "it's")" = 0 -a ! -e "it's/model.safetensors" ]
eval "run $(sed -n 's/^stopped after .*; resume with: tfm //p' err)"
check "train --resume repeats the validation interrupted by SIGTERM and gives the same parameters" both 0 alike "it's" whole
rm "it's/model.safetensors"
resume "it's"
check "train --resume writes the best model again when it was deleted" both 0 [ -s "it's/model.safetensors" ]
check "train --resume says that the best model was deleted" says err "it's/model.safetensors is missing: the next validation chooses the best model again"
check "train --resume without the best model counts no snapshot twice" [ "$(ls "it's/snapshots")" = "$(ls whole/snapshots)" ]

# Before the first update.
for i in 1 2 3 4 5 6 7 8 9 10; do cat text.de; done >more.de
for i in 1 2 3 4 5 6 7 8 9 10; do cat text.en; done >more.en
rm -rf part
# shellcheck disable=SC2086
device=$(sed -n 's/.*"type":"start".*"device":"\([^"]*\)".*/\1/p' whole/train.jsonl | head -n 1)
launch -o part $small --src more.de --tgt more.en --device "$device"
while [ ! -s part/recipe.json ] && kill -0 $child; do
    sleep 0.01
done
sleep 0.05
kill -TERM $child
wait $child 2>/dev/null
tr -d "'" <err >plain
check "SIGTERM before the first update says how to resume" grep -qF "resume with: tfm train --resume part --device $device" plain
resume part --max-steps 2
check "train --resume after SIGTERM before the first update succeeds" [ "$code" = 0 -a -s part/model.safetensors ]

echo "1..$count"
