# tfm train: non-finite losses.
. "$(dirname "$0")/common.sh"

begin wrong $files --max-steps 4 --eval-steps 3 --average 0
resume wrong --max-steps 300 --learning-rate 1e30
check "train stops at a non-finite loss and names update and checkpoint" one_last 1 \
    'update 6: the loss is .*nan.*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
check "train writes no non-finite number into the log" json_lines wrong/train.jsonl
resume wrong --max-steps 300 --eval-steps 5
check "train stops at a non-finite validation loss" one_last 1 \
    'update 5, validation: .*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
begin wrong $files --max-steps 300 --learning-rate 1e30
check "train stops at a non-finite loss before the first checkpoint" one_last 1 'update 2: the loss is .*nan.*; there is no checkpoint yet'
resume wrong --learning-rate 1e-3 --max-steps 3
check "train --resume with a lower learning rate continues after a non-finite loss" [ "$code" = 0 ]

# shellcheck disable=SC2086
begin spoiled $files --hold-out 0 --max-steps 10 --eval-steps 1 --learning-rate 1e30 --warmup-steps 0
check "train without validation stops at non-finite parameters" one_last 1 'update 1: the loss after it is .*there is no checkpoint yet'
check "train does not save non-finite parameters" [ ! -e spoiled/checkpoint.safetensors -a ! -e spoiled/model.safetensors ]

echo "1..$count"
