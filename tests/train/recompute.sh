# tfm train --recompute: blocks that the backward pass runs once more, which changes no bit.
. "$(dirname "$0")/common.sh"

plan="$files --hold-out 0 --valid-every 3 --report-every 1 --warmup 2 --average 2 --attention-dropout 0.1"
# same DIR DIR: their parameters at the sixth update
same() {
    [ "$code" = 0 ] && cmp "$1/snapshots/00000006.safetensors" "$2/snapshots/00000006.safetensors"
}
# shellcheck disable=SC2086
begin kept $plan --updates 6
# shellcheck disable=SC2086
begin again $plan --updates 6 --recompute
check "train --recompute gives the same parameters" same kept again
check "train --recompute is not in the recipe" [ "$(grep -c recompute again/recipe.json)" = 0 ]
# shellcheck disable=SC2086
begin part $plan --updates 3
resume part --updates 6 --recompute
check "train --resume --recompute gives the same parameters" same kept part

# shellcheck disable=SC2086
launch -o stopped $small $plan --updates 100000 --patience 0 --recompute
wait_for_update stopped 4
kill -INT "$child"
wait "$child"
code=$?
check "train --recompute says how to resume after SIGINT" both 0 says err 'go on with: tfm train --resume stopped --recompute'

echo "1..$count"
