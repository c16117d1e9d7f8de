# tfm train --gradient-checkpointing: recomputation in the backward pass, with bit-identical results.
. "$(dirname "$0")/common.sh"

plan="$files --hold-out 0 --eval-steps 3 --logging-steps 1 --warmup-steps 2 --average 2 --attention-dropout 0.1"
# same DIR DIR: their parameters at the sixth update
same() {
    [ "$code" = 0 ] && cmp "$1/snapshots/00000006.safetensors" "$2/snapshots/00000006.safetensors"
}
# shellcheck disable=SC2086
begin kept $plan --max-steps 6
# shellcheck disable=SC2086
begin again $plan --max-steps 6 --gradient-checkpointing
check "train --gradient-checkpointing gives the same parameters" same kept again
check "train --gradient-checkpointing is not in the recipe" [ "$(grep -c gradient-checkpointing again/recipe.json)" = 0 ]
# shellcheck disable=SC2086
begin part $plan --max-steps 3
resume part --max-steps 6 --gradient-checkpointing
check "train --resume --gradient-checkpointing gives the same parameters" same kept part

# shellcheck disable=SC2086
launch -o stopped $small $plan --max-steps 100000 --patience 0 --gradient-checkpointing
wait_for_update stopped 4
kill -INT "$child"
wait "$child"
code=$?
check "train --gradient-checkpointing says how to resume after SIGINT" both 0 says err 'resume with: tfm train --resume stopped --gradient-checkpointing'

echo "1..$count"
