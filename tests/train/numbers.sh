# tfm train: losses that are no number.
. "$(dirname "$0")/common.sh"

begin wrong $files --updates 4 --valid-every 3 --average 0
resume wrong --updates 300 --rate 1e30
check "no number: the update, and the last good checkpoint" one_last 1 \
    'update 6: the loss is .*nan.*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
check "no number: none is in the log" json_lines wrong/train.jsonl
resume wrong --updates 300 --valid-every 5
check "no number at a validation: the same" one_last 1 \
    'update 5, validation: .*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
begin wrong $files --updates 300 --rate 1e30
check "no number before the first checkpoint" one_last 1 'update 2: the loss is .*nan.*; there is no checkpoint yet'
resume wrong --rate 1e-3 --updates 3
check "no number: a lower rate" [ "$code" = 0 ]

# shellcheck disable=SC2086
begin spoiled $files --hold-out 0 --updates 10 --valid-every 1 --rate 1e30 --warmup 0
check "spoiled parameters without a validation" one_last 1 'update 1: it left parameters with which the loss is .*there is no checkpoint yet'
check "spoiled parameters are not kept" [ ! -e spoiled/checkpoint.safetensors -a ! -e spoiled/model.safetensors ]

echo "1..$count"
