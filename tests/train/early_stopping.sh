# tfm train: runs that end by --epochs or --patience.
. "$(dirname "$0")/common.sh"

begin epochs $files --epochs 2 --max-steps 1000 --hold-out 0 --average 0
updates=$(sed -n 's/.*"reason":"epochs","update":\([0-9]*\),.*/\1/p' epochs/train.jsonl)
begin epochs2 $files --epochs 2 --max-steps 1000 --hold-out 0 --average 0 --gradient-accumulation-steps $((updates / 2 + 1)) --logging-steps 1
check "train --epochs with --gradient-accumulation-steps ends with the last full update" both 0 [ "$(
    sed -n 's/^{"type":"train","update":\([0-9]*\),"epoch":\([0-9]*\),.*/\1 \2/p' epochs2/train.jsonl | tail -n 1)" = "2 2" ]
check "train --epochs ends after the passes" [ "$code" = 0 -a "$(sed -n 's/.*"reason":"\([a-z]*\)".*/\1/p' epochs/train.jsonl)" = epochs ]
for buffer in 60 240 200000; do # buffers that end with the text, one as large as the text, and a larger one
    begin epochs2 $files --epochs 1 --max-steps 1000 --hold-out 0 --average 0 --buffer-size $buffer --logging-steps 1
    check "train --epochs 1 --buffer-size $buffer reads nothing of epoch 2" \
        both 0 [ "$(sed -n 's/^{"type":"train",.*"epoch":\([0-9]*\),.*/\1/p' epochs2/train.jsonl | sort -u)" = 1 ]
done
begin patient $files --max-steps 1000 --eval-steps 2 --patience 2 --learning-rate 1e-9 --best-metric ppl --average 0 --valid-beam-size 2 --valid-tokenize char \
    --valid-lowercase --learning-rate 1
check "train --patience ends the run early" [ "$code" = 0 -a "$(sed -n 's/.*"reason":"\([a-z]*\)".*/\1/p' patient/train.jsonl)" = patience ]

echo "1..$count"
