# tfm train: runs that end with a pass over the text, or without patience.
. "$(dirname "$0")/common.sh"

begin epochs $files --epochs 2 --updates 1000 --hold-out 0 --average 0
updates=$(sed -n 's/.*"reason":"epochs","update":\([0-9]*\),.*/\1/p' epochs/train.jsonl)
begin epochs2 $files --epochs 2 --updates 1000 --hold-out 0 --average 0 --accumulate $((updates / 2 + 1)) --report-every 1
check "train --epochs with --accumulate ends with the last full update" both 0 [ "$(
    sed -n 's/^{"type":"train","update":\([0-9]*\),"epoch":\([0-9]*\),.*/\1 \2/p' epochs2/train.jsonl | tail -n 1)" = "2 2" ]
check "train --epochs ends after the passes" [ "$code" = 0 -a "$(sed -n 's/.*"reason":"\([a-z]*\)".*/\1/p' epochs/train.jsonl)" = epochs ]
for buffer in 60 240 200000; do # buffers that end with the text, one of just the text, and one with room to spare
    begin epochs2 $files --epochs 1 --updates 1000 --hold-out 0 --average 0 --buffer $buffer --report-every 1
    check "train --epochs 1 --buffer $buffer reads nothing of epoch 2" \
        both 0 [ "$(sed -n 's/^{"type":"train",.*"epoch":\([0-9]*\),.*/\1/p' epochs2/train.jsonl | sort -u)" = 1 ]
done
begin patient $files --updates 1000 --valid-every 2 --patience 2 --rate 1e-9 --best-by ppl --average 0 --valid-beam 2 --valid-tokenize char \
    --valid-lowercase --rate 1
check "train --patience ends the run early" [ "$code" = 0 -a "$(sed -n 's/.*"reason":"\([a-z]*\)".*/\1/p' patient/train.jsonl)" = patience ]

echo "1..$count"
