# tfm train --init-from FILE.gguf: fine-tuning the dequantized weights of a GGUF file.
. "$(dirname "$0")/common.sh"

plan="--max-steps 6 --eval-steps 3 --logging-steps 1 --warmup-steps 1 --batch-tokens 128 --seq-len 16 --average 2"

# Two models with a tokenizer that GGUF files have, and a chat template.
vocabulary() { # KIND BOS EOS
    mkdir "$1"
    cp "$root/tests/golden/tokenizers/$1/tokenizer.json" "$1"
    printf '{"bos_token": "%s", "eos_token": "%s", "chat_template": "%s"}\n' "$2" "$3" \
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}" >"$1/tokenizer_config.json"
}
vocabulary llama2 '<s>' '</s>'
vocabulary gpt2 '<|end|>' '<|end|>'
shape="--text text.en --width 32 --heads 4 --ffn-dim 64 --decoder-layers 2 --learning-rate 0.01"
# shellcheck disable=SC2086 # words, here and below
run train -o llama --vocab llama2 --family llama --kv-heads 2 $shape $plan
check "train builds a Llama model to quantize" [ "$code" = 0 ]
run train -o gpt --vocab gpt2 $shape $plan
check "train builds a GPT-2 model to quantize" [ "$code" = 0 ]
run quantize llama -o llama.gguf --precision q8_0
check "quantize writes the Llama model as a GGUF file" [ "$code" = 0 ]
mkdir folder
run quantize gpt -o folder/gpt.gguf --precision q4_0
check "quantize writes the GPT-2 model as a GGUF file" [ "$code" = 0 ]

unkept run bench generate --json --runs 1 -m llama.gguf --prompt-tokens 9 --max-new-tokens 4
check "bench generate measures a GGUF file in its own types" [ "$code" = 0 -a "$(grep -c '"precision":"Q8_0"' out)" = 2 ]

# An update with a learning rate that is 0 as a float writes the dequantized model.
losses() { # DIR
    grep -o '"\(loss\|nll\|grad_norm\)":[^,}]*' "$1/train.jsonl"
}
for model in llama folder; do
    file=$model
    [ $model = folder ] || file=$model.gguf
    run train -o "$model-plain" --init-from $file --text text.en $plan --max-steps 1 --learning-rate 1e-60 --dropout 0
    check "train --init-from a GGUF file ($model) writes a directory" [ "$code" = 0 -a -e $model-plain/model.safetensors ]
    run train -o "$model-dir" --init-from "$model-plain" --text text.en $plan --dropout 0
    check "train --init-from the dequantized directory ($model) trains" [ "$code" = 0 ]
    run train -o "$model-file" --init-from $file --text text.en $plan --dropout 0
    check "train --init-from a GGUF file ($model) trains" both 0 says out "^$model-file: 6 updates"
    losses "$model-dir" >want
    losses "$model-file" >got
    check "train --init-from a GGUF file ($model) has the losses of the dequantized directory" [ -s want -a "$(cat want)" = "$(cat got)" ]
    check "train --init-from a GGUF file ($model) gives the parameters of the dequantized directory" cmp \
        "$model-file/snapshots/00000006.safetensors" "$model-dir/snapshots/00000006.safetensors"
    check "train --init-from a GGUF file ($model) lowers the validation loss" [ "$(sed -n 's/.*"type":"valid".*"nll":\([0-9.]*\).*/\1/p' "$model-file/train.jsonl" | sort -gr | tail -n 1)" = \
        "$(sed -n 's/.*"type":"valid".*"nll":\([0-9.]*\).*/\1/p' "$model-file/train.jsonl" | tail -n 1)" ]
    run score -m $file --precision fp32 --text text.en
    mv out want
    run score -m "$model-plain" --text text.en
    check "train --init-from a GGUF file ($model) keeps its tokenizer" both 0 cmp want out
    check "train --init-from a GGUF file ($model) keeps its chat template" grep -qF '[{{ m.role }}]' "$model-file/tokenizer_config.json"
    run train -o "$model-some" --init-from $file --text text.en $plan --dropout 0 --max-steps 2
    run train --resume "$model-some" --max-steps 6
    check "train --resume of --init-from a GGUF file ($model) gives the parameters of the whole run" both 0 cmp \
        "$model-some/snapshots/00000006.safetensors" "$model-file/snapshots/00000006.safetensors"
done
check "train --init-from a Llama file writes a Llama model" grep -q '"LlamaForCausalLM"' llama-file/config.json
run train -o frozen --init-from llama.gguf --text text.en $plan --freeze 'model.layers.*'
check "train --init-from a GGUF file freezes parameters by the names of the directory" [ "$code" = 0 ]
commit=0123456789012345678901234567890123456789
mkdir -p hub/models--me--tiny/refs "hub/models--me--tiny/snapshots/$commit"
cp llama.gguf "hub/models--me--tiny/snapshots/$commit/tiny-Q8_0.gguf"
printf %s "$commit" >hub/models--me--tiny/refs/main
export HF_HUB_CACHE="$here/hub"
run train -o named --init-from me/tiny:Q8_0 --text text.en $plan --dropout 0
check "train --init-from takes a hub name of a GGUF file" both 0 cmp named/snapshots/00000006.safetensors llama-file/snapshots/00000006.safetensors
run quantize "$root/tests/golden/masked" -o encoder.gguf --precision fp16
run train -o other --init-from encoder.gguf --text text.en
check "train --init-from refuses a GGUF file of an encoder by its family" one_sentence 1 'encoder.gguf, of the family bert, is of the kind encoder'
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\5\0\0\0\0\0\0\0mamba' >mamba.gguf
run train -o other --init-from mamba.gguf --text text.en
check "train --init-from refuses an unknown architecture of a GGUF file by name" one_sentence 1 "mamba.gguf: the GGUF architecture \`mamba\` is not supported"
printf 'GGUF\3\0\0\0' >damaged.gguf
run train -o other --init-from damaged.gguf --text text.en
check "train --init-from names a damaged GGUF file" one_sentence 1 'damaged.gguf'
run train -o other --init-from llama.gguf --text text.en --seq-len 17
check "train --init-from a GGUF file rejects --seq-len above its context" one_sentence 1 'takes up to 16 tokens'
check "train --init-from a GGUF file that is rejected leaves no run" [ ! -e other/recipe.json ]

echo "1..$count"
