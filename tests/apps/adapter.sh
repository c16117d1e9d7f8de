# --adapter of the commands, and tfm merge.
#     sh tests/apps/adapter.sh PROGRAM SOURCE_ROOT MAKE_DECODER
# Prints TAP.
maker=$(realpath "$3")
. "$(dirname "$0")/common.sh"
adapter() {
    python3 "$root/tests/apps/make_adapter.py" "$@" || exit 1
}
# as_changed NAME COMMAND ARGUMENTS...: the base model with the adapter prints what the changed copy does
as_changed() {
    name=$1
    command=$2
    shift 2
    run "$command" -m changed "$@"
    mv out want
    run "$command" -m base "$@"
    cp out plain
    run "$command" -m base --adapter lora "$@"
    check "$name" eval '[ "$code" = 0 ] && cmp -s out want && ! cmp -s out plain'
}

mkdir base
"$maker" base || exit 1
adapter base 'c_(attn|proj|fc)' lora changed
as_changed "generate --adapter generates the text of a base model with these weights" generate --token-ids --max-new-tokens 12 "10 11 12"
run generate -m base --token-ids --max-new-tokens 12 --adapter lora --adapter-scale 2 "10 11 12"
cp out twice
run generate -m base --token-ids --max-new-tokens 12 --adapter lora --adapter lora "10 11 12"
check "generate --adapter twice equals --adapter-scale 2" same out twice
run generate -m base --token-ids --adapter-scale 2 --adapter lora "10 11 12"
check "--adapter-scale before --adapter is a usage error" one_sentence 2 '--adapter-scale has no --adapter before it'
run generate -m base --token-ids --adapter lora --adapter-scale 0 "10 11 12"
check "--adapter-scale 0 is a usage error" one_sentence 2 'leave the adapter out'
run generate -m base --token-ids --adapter missing "10 11 12"
check "--adapter of a missing directory is refused" one_sentence 1 'missing'
run generate -m lora --token-ids "10 11 12"
check "an adapter as the model is refused with what to do" one_sentence 1 'open its base model with it (--adapter), or merge it'
run generate -m "$root/tests/golden/reranker_qwen3" --adapter lora ab
check "an adapter of another base model is refused with the name of the right one" one_sentence 1 "use the adapter's base model, base"

# ---- Merge
run merge -m base --adapter lora -o merged
check "merge prints the size of the model" both 0 says out '^merged: .* parameters, F32'
run generate -m base --token-ids --max-new-tokens 12 --adapter lora "10 11 12"
mv out want
run generate -m merged --token-ids --max-new-tokens 12 "10 11 12"
check "generate of a merged model equals --adapter" same out want
check "merge copies config.json" python3 -c 'import json; assert json.load(open("merged/config.json")) == json.load(open("base/config.json"))'
run merge -m base --adapter lora -o merged
check "merge does not overwrite an existing model" one_sentence 1 'merged holds a model already'
run merge -m base --adapter lora -o base
check "merge refuses to write into the base model" one_sentence 1 'base is the model itself'
run merge -m base -o other
check "merge without an adapter is a usage error" one_sentence 2 '--adapter DIR is needed'
run merge -m base --adapter lora -o other --precision q8_0
check "merge --precision is for GGUF files" one_sentence 2 'give -o a name that ends in .gguf'
run quantize base -o bytes
run merge -m bytes --adapter lora -o other
check "merge refuses a quantized base model" one_sentence 1 'merge the adapter into the original model'
run generate -m bytes --token-ids --max-new-tokens 12 --adapter lora "10 11 12"
check "generate --adapter accepts an int8 base model" both 0 [ "$(wc -w <out)" = 12 ]

# ---- GGUF
cp "$root/tests/golden/tokenizers/gpt2/tokenizer.json" base
run generate -m base --adapter lora --token-ids --max-new-tokens 8 "5 6 7"
mv out want
run merge -m base --adapter lora -o merged.gguf
check "merge writes a GGUF file" both 0 says out '^merged.gguf: '
run generate -m merged.gguf --token-ids --max-new-tokens 8 "5 6 7"
check "generate of the merged GGUF file is that of --adapter" same out want
run merge -m base --adapter lora -o small.gguf --precision q8_0
check "merge --precision q8_0 writes a smaller GGUF file" [ "$(wc -c <small.gguf)" -lt "$(wc -c <merged.gguf)" ]
run quantize base -o base.gguf --precision fp16
run generate -m base.gguf --adapter lora --token-ids --max-new-tokens 8 "5 6 7"
check "generate --adapter of a GGUF base model is that of the directory" same out want
run merge -m base.gguf --adapter lora -o other
check "merge of a GGUF file writes no directory" one_sentence 1 'write a GGUF file'
run merge -m base.gguf --adapter lora -o again.gguf
run generate -m again.gguf --token-ids --max-new-tokens 8 "5 6 7"
check "merge of a GGUF file writes a GGUF file" same out want

# ---- Other tasks
qwen=$root/tests/golden/reranker_qwen3
adapter "$qwen" 'layers.*(proj)' qwen-lora
printf 'the cat sits in the garden\na dog\n' >text
run rerank -m "$qwen" "a cat" -i text --adapter qwen-lora
check "rerank takes --adapter" [ "$code" = 0 ]
run score -m "$qwen" --text text
mv out plain
run score -m "$qwen" --text text --adapter qwen-lora
check "score --adapter changes the scores" eval '[ "$code" = 0 ] && ! cmp -s plain out'

adapter "$demo" 'layers.*(proj|fc1)' demo-lora
run score -m "$demo" --src "$demo/test.de" --tgt "$demo/beam4.en" --adapter demo-lora --adapter-scale 0.1
mv out want
run merge -m "$demo" --adapter demo-lora --adapter-scale 0.1 -o demo-merged
check "merge keeps fp16" both 0 says out 'F16'
run score -m demo-merged --src "$demo/test.de" --tgt "$demo/beam4.en"
cut -f 3 want >left
cut -f 3 out | paste left - | awk '{ d = $1 - $2; if (d < -0.01 || d > 0.01) bad = 1 } END { exit bad }'
check "score of a merged translation model is that of --adapter" [ $? = 0 ]
run translate -m "$demo" --adapter demo-lora --adapter-scale 0.1 -i two.de
check "translate takes --adapter" [ "$code" = 0 -a "$(wc -l <out)" = 2 ]
run eval -m "$demo" --src two.de --ref two.de --adapter demo-lora --adapter-scale 0.1
check "eval takes --adapter" [ "$code" = 0 ]
embedder=$root/tests/golden/embedder
adapter "$embedder/0_Transformer" 'query|value' embed-lora
run embed -m "$embedder" -i text
mv out plain
run embed -m "$embedder" -i text --adapter embed-lora
cp out want
check "embed --adapter changes the embeddings" eval '[ "$code" = 0 ] && ! cmp -s plain want'
run merge -m "$embedder" --adapter embed-lora -o embed-merged
run embed -m embed-merged -i text
check "embed of a merged embedding model is that of --adapter" same out want

echo "1..$count"
