# tfm train: products in bf16, on devices that have such, and elsewhere a sentence.
. "$(dirname "$0")/common.sh"

plan="$files --hold-out 0 --valid-every 3 --report-every 1 --warmup 2 --average 2"
# shellcheck disable=SC2086
begin plain $plan --updates 6
check "--precision: fp32 without it" both 0 [ "$(value plain precision)" = '"fp32"' ]

# shellcheck disable=SC2086
OPENCL_LAYERS=$layer TFM_FAULT_LIE=type=4,width=1,local=32768 begin none $plan --updates 6 --precision bf16
check "--precision bf16: a device without" one_sentence 1 'cannot train with products of BF16, since'
check "--precision bf16: and nothing is left of the run" [ ! -e none/recipe.json ]

# shellcheck disable=SC2086
begin whole $plan --updates 6 --precision bf16
if [ "$code" = 1 ]; then
    check "--precision bf16: no device here has it" one_sentence 1 'cannot train with products of BF16, since'
    echo "1..$count"
    exit 0
fi
check "--precision bf16: is in the recipe" both 0 [ "$(value whole precision)" = '"bf16"' ]
check "--precision bf16: and no fp32" [ -s plain/snapshots/00000006.safetensors -a -s whole/snapshots/00000006.safetensors -a "$(cmp plain/snapshots/00000006.safetensors whole/snapshots/00000006.safetensors >/dev/null && echo same)" = "" ]
# shellcheck disable=SC2086
begin part $plan --updates 3 --precision bf16
resume part --updates 6
check "--resume: goes on in bf16, to the bit" both 0 cmp whole/snapshots/00000006.safetensors part/snapshots/00000006.safetensors
resume part --updates 7 --precision fp32
check "--resume --precision: another one" both 0 [ "$(value part precision)" = '"fp32"' ]

# A recipe of before there was the option is of fp32.
# shellcheck disable=SC2086
begin old $plan --updates 3
sed -i '/"precision"/d' old/recipe.json
resume old --updates 6
check "--resume: a recipe without" both 0 cmp plain/snapshots/00000006.safetensors old/snapshots/00000006.safetensors

echo "1..$count"
