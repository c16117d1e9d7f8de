# tfm train: pieces that are drawn anew in each pass.
. "$(dirname "$0")/common.sh"

plan="$files --eval-steps 4 --logging-steps 1 --warmup-steps 2 --average 2 --hold-out 0"

for way in "" --unigram; do # pieces that are drawn anew in each pass, of which there are some in so many updates
    # shellcheck disable=SC2086
    begin drawn $plan $way --max-steps 40 --subword-alpha 0.2 --buffer-size 50
    # shellcheck disable=SC2086
    begin drawn2 $plan $way --max-steps 17 --subword-alpha 0.2 --buffer-size 50
    resume drawn2 --max-steps 40
    check "train --subword-alpha${way:+ with $way} resumed gives the same parameters" both 0 cmp drawn/snapshots/00000040.safetensors drawn2/snapshots/00000040.safetensors
    check "train --subword-alpha${way:+ with $way} makes more than one pass" says err "epoch 2 "
    rm -r drawn2
done
sed -i.all '/"dropout"/d' drawn/recipe.json
resume drawn --max-steps 50
check "train --resume rejects a recipe without dropout" one_sentence 1 '"dropout" is missing or not what --dropout takes'
mv drawn/recipe.json.all drawn/recipe.json
sed -i '/subword-alpha/d' drawn/recipe.json # as an older program left it
resume drawn --max-steps 50 --logging-steps 1
check "train --resume accepts a recipe without subword-alpha" both 0 says err '^update 50/50 '
check "train --resume of a recipe without subword-alpha samples no segmentation" [ "$(value drawn subword-alpha)" = 0.0 ]
rm -r drawn
# Where a line's best pieces just fit, drawn ones do not always: it counts in each pass all the same.
for way in "" --strict; do
    # shellcheck disable=SC2086
    begin drawn $files --max-steps 60 --subword-alpha 0.3 --max-length 9 --hold-out 0 --average 0 $way
    check "train --subword-alpha validates with the best segmentation${way:+, with $way}" both 0 says err 'epoch 4 '
done

echo "1..$count"
