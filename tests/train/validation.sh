# tfm train: validation added later, changed, or with non-finite results.
. "$(dirname "$0")/common.sh"

# Validation can be added or changed on resume: the best model so far is measured again.
# shellcheck disable=SC2086
begin plain $files --hold-out 0 --max-steps 4 --eval-steps 2 --average 0
resume plain --max-steps 8 --valid-src valid.de --valid-tgt valid.en --best-metric ppl --patience 2
check "train --resume with a first validation measures the best model again" both 0 says err '^validation has changed: scored again, the best model so far, of update 4,'
check "train --resume with a first validation finds a best model" says err '^update 8  valid .*best so far'
resume plain --max-steps 10
check "train --resume with the same validation measures nothing again" [ "$code" = 0 -a "$(grep -c 'validation has changed' err)" = 0 ]
sed 's/e/a/g' valid.en >harder.en
resume plain --max-steps 12 --valid-tgt harder.en
check "train --resume with another validation measures the best model again" both 0 says err '^validation has changed: scored again, the best model so far, of update 10,'

# shellcheck disable=SC2086
begin large $files --hold-out 0 --max-steps 1 --eval-steps 1 --learning-rate 15 --warmup-steps 0 --average 0 --dropout 0
resume large --valid-src valid.de --valid-tgt valid.en --max-steps 3 --learning-rate 1e-9 --max-grad-norm 1
check "train --resume with another validation accepts an infinite best perplexity" both 0 says err '^validation has changed: .* ppl inf'
# shellcheck disable=SC2086
begin large $files --valid-src valid.de --valid-tgt valid.en --max-steps 2 --eval-steps 1 --learning-rate 15 --warmup-steps 0 --lr-scheduler-type constant --average 0 \
    --dropout 0
check "train writes a model when validation has no finite perplexity" both 0 says err '^update 1  valid  ppl inf .*best so far'
check "train logs the loss of a validation without finite perplexity" [ -s large/model.safetensors -a "$(grep '"type":"valid"' large/train.jsonl | grep -c '"nll":[0-9.]*,"ppl":null')" -gt 0 ]
resume large
check "train --resume opens a checkpoint without finite perplexity" both 0 says out '^large: 2 updates; best on validation: .* ppl '

echo "1..$count"
