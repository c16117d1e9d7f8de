# tfm train: when the average of the last snapshots is the model.
. "$(dirname "$0")/common.sh"

# begin_noisy OPTION...: at a high rate the average is better than what it is made of, with every other seed or so: the
# first such run.
begin_noisy() {
    for seed in 3 1 2 4 5 6 7 8 9 10; do # on PoCL the third, mostly
        # shellcheck disable=SC2086
        begin noisy $files --valid-src valid.de --valid-tgt valid.en --report-every 10 --warmup 1 --rate 2e-2 --schedule constant \
            --dropout 0 --best-by ppl --seed $seed "$@"
        grep -q '"average".*"best":true' noisy/train.jsonl && break
    done
}
# It stays the best when the run goes on, here without another average, which might be better by chance.
begin_noisy --updates 150 --valid-every 5 --average 10 --patience 0
check "the average: the best" grep -q '"average".*"best":true' noisy/train.jsonl
best=$(sed 's/.*ppl //' out)
cp noisy/model.safetensors averaged
resume noisy --updates 152 --valid-every 1 --rate 1e-12 --average 0
check "the average: the best of a run that went on" both 0 says out "152 updates; best on validation: BLEU .*, ppl $best\$"
check "the average: the model" cmp averaged noisy/model.safetensors

# The same where patience ends the run, which it does for good.
begin_noisy --updates 1000 --valid-every 10 --average 6 --patience 2
check "the average: the best of a run out of patience" both 0 grep -q '"average".*"best":true' noisy/train.jsonl
check "the average: which says so" grep -q '"reason":"patience"' noisy/train.jsonl
cp out before
resume noisy
check "--resume: out of patience still" same out before

# One that is worse than the last validation is kept only where the recipe says so.
# shellcheck disable=SC2086
begin steady $files --valid-src valid.de --valid-tgt valid.en --updates 20 --valid-every 5 --report-every 10 --warmup 1 --rate 1e-3 \
    --schedule constant --average 4 --best-by ppl
check "the average: not the best" grep -q '"average".*"best":false' steady/train.jsonl
cp steady/model.safetensors last
resume steady --keep-average
check "--keep-average: kept" both 0 says err '^update 20  average .*  kept$'
check "--keep-average: its figures" says out '^steady: 20 updates; the average on validation: BLEU '
resume steady --updates 21 --valid-every 100 --average 1
check "--keep-average: not without an average" one_sentence 2 '--keep-average needs an average of 2 at least: --average is 1'
begin single $files --updates 2 --hold-out 0 --keep-average
check "--keep-average: of one there is none" both 0 says err 'one snapshot alone, so the model is no average'
check "--keep-average: the model" [ "$(cmp steady/model.safetensors last >/dev/null && echo same)" = "" ]

# shellcheck disable=SC2086
begin few $files --valid-src valid.de --valid-tgt valid.en --updates 4 --valid-every 1 --average 3
check "an average" both 0 says err '^update 4  average '
echo half >few/snapshots/00000001.safetensors.unfinished
echo half >few/config.json.unfinished
echo mine >few/thesis.unfinished
echo mine >few/result.tfm-abcdef
resume few --average 0
check "--resume --average 0: none any more" [ "$code $(grep -c '^update 4  average ' err)" = "0 0" ]
check "what a kill has left of a snapshot goes" [ ! -e few/snapshots/00000001.safetensors.unfinished -a ! -e few/config.json.unfinished ]
check "what is not the run's stays" [ -e few/thesis.unfinished -a -e few/result.tfm-abcdef ]

echo "1..$count"
