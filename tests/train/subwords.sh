# tfm train --subword-alpha: segmentations sampled in each pass.
. "$(dirname "$0")/common.sh"

plan="$files --eval-steps 4 --logging-steps 1 --warmup-steps 2 --average 2 --hold-out 0"

for way in "" --unigram; do # several passes within so many updates
    # shellcheck disable=SC2086
    begin sampled $plan $way --max-steps 40 --subword-alpha 0.2 --buffer-size 50
    # shellcheck disable=SC2086
    begin sampled2 $plan $way --max-steps 17 --subword-alpha 0.2 --buffer-size 50
    resume sampled2 --max-steps 40
    check "train --subword-alpha${way:+ with $way} resumed gives the same parameters" both 0 cmp sampled/snapshots/00000040.safetensors sampled2/snapshots/00000040.safetensors
    check "train --subword-alpha${way:+ with $way} runs more than one pass" says err "epoch 2 "
    rm -r sampled2
done
sed -i.all '/"dropout"/d' sampled/recipe.json
resume sampled --max-steps 50
check "train --resume rejects a recipe without dropout" one_sentence 1 '"dropout" is missing or not what --dropout takes'
mv sampled/recipe.json.all sampled/recipe.json
sed -i '/subword-alpha/d' sampled/recipe.json # as in older versions
resume sampled --max-steps 50 --logging-steps 1
check "train --resume accepts a recipe without subword-alpha" both 0 says err '^update 50/50 '
check "train --resume of a recipe without subword-alpha samples no segmentation" [ "$(value sampled subword-alpha)" = 0.0 ]
rm -r sampled
# A line whose best segmentation just fits counts in each pass, even if the sampled one does not fit.
for way in "" --strict; do
    # shellcheck disable=SC2086
    begin sampled $files --max-steps 60 --subword-alpha 0.3 --max-length 9 --hold-out 0 --average 0 $way
    check "train --subword-alpha validates with the best segmentation${way:+, with $way}" both 0 says err 'epoch 4 '
done

echo "1..$count"
