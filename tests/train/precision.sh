# tfm train --precision bf16: on devices with bf16 matmuls; an error on others.
. "$(dirname "$0")/common.sh"

plan="$files --hold-out 0 --eval-steps 3 --logging-steps 1 --warmup-steps 2 --average 2"
# shellcheck disable=SC2086
begin plain $plan --max-steps 6
check "train uses fp32 by default" both 0 [ "$(value plain precision)" = '"fp32"' ]

# shellcheck disable=SC2086
OPENCL_LAYERS=$layer TFM_FAULT_LIE=type=4,width=1,local=32768 begin none $plan --max-steps 6 --precision bf16
check "train --precision bf16 is an error on a device without bf16" one_sentence 1 'cannot train in BF16, since'
check "train --precision bf16 on a device without bf16 leaves no run" [ ! -e none/recipe.json ]

# shellcheck disable=SC2086
begin whole $plan --max-steps 6 --precision bf16
if [ "$code" = 1 ]; then
    check "train --precision bf16 is an error where no device has bf16" one_sentence 1 'cannot train in BF16, since'
    echo "1..$count"
    exit 0
fi
check "train --precision bf16 writes bf16 into the recipe" both 0 [ "$(value whole precision)" = '"bf16"' ]
check "train --precision bf16 differs from fp32" [ -s plain/snapshots/00000006.safetensors -a -s whole/snapshots/00000006.safetensors -a "$(cmp plain/snapshots/00000006.safetensors whole/snapshots/00000006.safetensors >/dev/null && echo same)" = "" ]
# shellcheck disable=SC2086
begin part $plan --max-steps 3 --precision bf16
resume part --max-steps 6
check "train --resume continues in bf16 with the same parameters" both 0 cmp whole/snapshots/00000006.safetensors part/snapshots/00000006.safetensors
resume part --max-steps 7 --precision fp32
check "train --resume --precision fp32 continues a bf16 run in fp32" both 0 [ "$(value part precision)" = '"fp32"' ]

# A recipe without the option means fp32.
# shellcheck disable=SC2086
begin old $plan --max-steps 3
sed -i '/"precision"/d' old/recipe.json
resume old --max-steps 6
check "train --resume accepts a recipe without precision" both 0 cmp plain/snapshots/00000006.safetensors old/snapshots/00000006.safetensors

echo "1..$count"
