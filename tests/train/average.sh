# tfm train: when the model is the average of the last snapshots.
. "$(dirname "$0")/common.sh"

# begin_noisy OPTION...: the first seed for which, at a high learning rate, the average is better than its snapshots;
# about every other seed is.
begin_noisy() {
    for seed in 3 1 2 4 5 6 7 8 9 10; do # on PoCL the third, mostly
        # shellcheck disable=SC2086
        begin noisy $files --valid-src valid.de --valid-tgt valid.en --logging-steps 10 --warmup-steps 1 --learning-rate 2e-2 --lr-scheduler-type constant \
            --dropout 0 --best-metric ppl --seed $seed "$@"
        grep -q '"average".*"best":true' noisy/train.jsonl && break
    done
}
# It stays the best after a resume, here without another average, which might be better by chance.
begin_noisy --max-steps 150 --eval-steps 5 --average 10 --patience 0
check "train --average writes the average of the best snapshots" grep -q '"average".*"best":true' noisy/train.jsonl
best=$(sed 's/.*ppl //' out)
cp noisy/model.safetensors averaged
resume noisy --max-steps 152 --eval-steps 1 --learning-rate 1e-12 --average 0
check "train --average after --resume writes the average of the best snapshots" both 0 says out "152 updates; best on validation: BLEU .*, ppl $best\$"
check "train --average writes the average as the model" cmp averaged noisy/model.safetensors

# The same if patience ends the run, which is final.
begin_noisy --max-steps 1000 --eval-steps 10 --average 6 --patience 2
check "train --average with --patience writes the average of the best snapshots" both 0 grep -q '"average".*"best":true' noisy/train.jsonl
check "train --patience says that the run ended early" grep -q '"reason":"patience"' noisy/train.jsonl
cp out before
resume noisy
check "train --resume of a run out of patience ends at once" same out before

# An average worse than the last validation is kept only if the recipe says so.
# shellcheck disable=SC2086
begin steady $files --valid-src valid.de --valid-tgt valid.en --max-steps 20 --eval-steps 5 --logging-steps 10 --warmup-steps 1 --learning-rate 1e-3 \
    --lr-scheduler-type constant --average 4 --best-metric ppl
check "train does not write the average when it is worse than the best snapshot" grep -q '"average".*"best":false' steady/train.jsonl
cp steady/model.safetensors last
resume steady --keep-average
check "train --keep-average writes the average even when it is worse" both 0 says err '^update 20  average .*  kept$'
check "train --keep-average reports the figures of the average" says out '^steady: 20 updates; the average on validation: BLEU '
resume steady --max-steps 21 --eval-steps 100 --average 1
check "train --resume --average 1 with --keep-average is a usage error" one_sentence 2 '--keep-average needs an average of 2 at least: --average is 1'
begin single $files --max-steps 2 --hold-out 0 --keep-average
check "train --keep-average with one snapshot says that the model is no average" both 0 says err 'only one snapshot, so the model is no average'
check "train --keep-average of the worse average replaces the model" [ "$(cmp steady/model.safetensors last >/dev/null && echo same)" = "" ]

# shellcheck disable=SC2086
begin few $files --valid-src valid.de --valid-tgt valid.en --max-steps 4 --eval-steps 1 --average 3
check "train --average writes an average model" both 0 says err '^update 4  average '
echo half >few/snapshots/00000001.safetensors.unfinished
echo half >few/config.json.unfinished
echo mine >few/thesis.unfinished
echo mine >few/result.tfm-abcdef
resume few --average 0
check "train --resume --average 0 deletes the snapshots" [ "$code $(grep -c '^update 4  average ' err)" = "0 0" ]
check "train --resume deletes the unfinished snapshot of a killed run" [ ! -e few/snapshots/00000001.safetensors.unfinished -a ! -e few/config.json.unfinished ]
check "train --resume keeps files that are not the run's" [ -e few/thesis.unfinished -a -e few/result.tfm-abcdef ]

echo "1..$count"
