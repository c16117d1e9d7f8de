# tfm train: losses that are no number.
. "$(dirname "$0")/common.sh"

begin wrong $files --updates 4 --valid-every 3 --average 0
resume wrong --updates 300 --rate 1e30
check "train stops at a non-finite loss and names update and checkpoint" one_last 1 \
    'update 6: the loss is .*nan.*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
check "train writes no non-finite number into the log" json_lines wrong/train.jsonl
resume wrong --updates 300 --valid-every 5
check "train stops at a non-finite validation loss" one_last 1 \
    'update 5, validation: .*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
begin wrong $files --updates 300 --rate 1e30
check "train stops at a non-finite loss before the first checkpoint" one_last 1 'update 2: the loss is .*nan.*; there is no checkpoint yet'
resume wrong --rate 1e-3 --updates 3
check "train --resume with a lower learning rate continues after a non-finite loss" [ "$code" = 0 ]

# shellcheck disable=SC2086
begin spoiled $files --hold-out 0 --updates 10 --valid-every 1 --rate 1e30 --warmup 0
check "train without validation stops at non-finite parameters" one_last 1 'update 1: it left parameters with which the loss is .*there is no checkpoint yet'
check "train does not save non-finite parameters" [ ! -e spoiled/checkpoint.safetensors -a ! -e spoiled/model.safetensors ]

echo "1..$count"
