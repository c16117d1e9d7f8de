# tfm train --resume --max-steps: more updates, or none.
. "$(dirname "$0")/common.sh"

# A new limit at the current update: validates and writes a model, as if the run had begun with that limit.
plan="$files --eval-steps 1000 --logging-steps 1 --warmup-steps 2 --average 2"
rm -rf part
# shellcheck disable=SC2086
launch -o part $small $plan --max-steps 100000
wait_for_update part 1
kill -TERM $child
wait $child
stopped=$(sed -n 's/^stopped after update \([0-9]*\);.*/\1/p' err)
resume part --max-steps "$stopped"
check "train --resume --max-steps below the run's updates trains no more" both 0 says out "^part: $stopped updates; best on validation: BLEU"
check "train --resume --max-steps below the run's updates writes a model" [ -s part/model.safetensors -a -s "part/snapshots/$(printf %08d "$stopped").safetensors" ]

# A higher limit: as if the run had begun with it.
plan="$files --eval-steps 4 --logging-steps 1 --warmup-steps 2 --average 2 --hold-out 0"
# shellcheck disable=SC2086
begin whole $plan --max-steps 12
# shellcheck disable=SC2086
begin part $plan --max-steps 7
cp part/recipe.json before.json
sed -i 's/"max-steps"/"updates"/; s/"eval-steps"/"valid-every"/; s/"learning-rate"/"rate"/; s/"ffn-dim"/"ffn"/; s/"buffer-size"/"buffer"/' \
    part/recipe.json # as in older versions
resume part --max-steps 12 --logging-steps 3
check "train --resume --max-steps gives the parameters of an uninterrupted run" both 0 cmp whole/snapshots/00000012.safetensors part/snapshots/00000012.safetensors
check "train --resume writes the changed option into the recipe" [ "$(value part max-steps) $(value part logging-steps)" = "12 3" ]
check "train --resume changes no other option of the recipe" [ "$(diff before.json part/recipe.json | grep -c '^>')" = 2 ]
check "train without validation reports no BLEU" [ "$(cat out)" = "part: 12 updates" -a "$(reports valid part)" = 0 ]
check "train without validation writes the last parameters and says why it does not average" says err '^the model is that of update 12: without validation'
cp part/model.safetensors last
resume part --keep-average
check "train --keep-average without validation writes the average" both 0 says err '^the model is the average of the snapshots$'
check "train --keep-average without validation gives another model" [ "$(cmp part/model.safetensors last >/dev/null && echo same)" = "" ]
"$tfm" info part >out 2>err
check "train --keep-average without validation writes a model that opens" [ -s part/model.safetensors ]

# Reports continue where the last one ended, also after a resume.
plan="$files --hold-out 0 --eval-steps 2 --logging-steps 3 --warmup-steps 2 --average 0"
# shellcheck disable=SC2086
begin odd $plan --max-steps 8
# shellcheck disable=SC2086
begin odd2 $plan --max-steps 4
resume odd2 --max-steps 8
log odd >left
log odd2 >right
check "train --resume between reports gives the same reports" both 0 cmp left right

echo "1..$count"
