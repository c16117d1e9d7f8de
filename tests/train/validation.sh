# tfm train: validation that comes later, or is another one than before, or has no finite figures.
. "$(dirname "$0")/common.sh"

# Validation may come to a run that had none, and be another one: the best so far is scored by it.
# shellcheck disable=SC2086
begin plain $files --hold-out 0 --updates 4 --valid-every 2 --average 0
resume plain --updates 8 --valid-src valid.de --valid-tgt valid.en --best-by ppl --patience 2
check "--resume: a first validation" both 0 says err '^validation has changed: measured anew, the best model so far, of update 4,'
check "--resume: a first validation finds a best" says err '^update 8  valid .*best so far'
resume plain --updates 10
check "--resume: the same validation is that" [ "$code" = 0 -a "$(grep -c 'validation has changed' err)" = 0 ]
sed 's/e/a/g' valid.en >harder.en
resume plain --updates 12 --valid-tgt harder.en
check "--resume: another validation" both 0 says err '^validation has changed: measured anew, the best model so far, of update 10,'

# shellcheck disable=SC2086
begin large $files --hold-out 0 --updates 1 --valid-every 1 --rate 15 --warmup 0 --average 0 --dropout 0
resume large --valid-src valid.de --valid-tgt valid.en --updates 3 --rate 1e-9 --clip 1
check "--resume: a best so far that has no finite perplexity" both 0 says err '^validation has changed: .* ppl inf'
# shellcheck disable=SC2086
begin large $files --valid-src valid.de --valid-tgt valid.en --updates 2 --valid-every 1 --rate 15 --warmup 0 --schedule constant --average 0 \
    --dropout 0
check "a validation with no finite perplexity: a model all the same" both 0 says err '^update 1  valid  ppl inf .*best so far'
check "and its nll" [ -s large/model.safetensors -a "$(grep '"type":"valid"' large/train.jsonl | grep -c '"nll":[0-9.]*,"ppl":null')" -gt 0 ]
resume large
check "and its checkpoint opens" both 0 says out '^large: 2 updates; best on validation: .* ppl '

echo "1..$count"
