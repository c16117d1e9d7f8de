# A short version of apps/numbers.sh: trains on number words from the files of `number_words DIR`, and fails unless
# nearly all test lines are right.
#     sh tests/numbers.sh PROGRAM NUMBERS_DIR RUN_DIR
set -eu
tfm=$1 words=$2 run=$3
rm -rf "$run"
"$tfm" train -o "$run" --src "$words/train.de" --tgt "$words/train.en" --valid-src "$words/valid.de" \
    --valid-tgt "$words/valid.en" --vocab-size 240 --width 128 --heads 4 --ffn-dim 256 --encoder-layers 2 --decoder-layers 2 \
    --dropout 0 --label-smoothing 0 --batch-tokens 1024 --max-steps 400 --warmup-steps 100 --learning-rate 2e-3 --lr-scheduler-type cosine \
    --eval-steps 200
"$tfm" translate -m "$run" -i "$words/test.de" -o "$run/test.out"
all=$(wc -l <"$words/test.en")
right=$(paste -d '|' "$run/test.out" "$words/test.en" | awk -F '|' '$1 == $2' | wc -l)
echo "$right of $all unseen numbers are right"
[ "$right" -gt $((all * 95 / 100)) ]
