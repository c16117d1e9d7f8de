# tfm quantize, and translation with int8, fp16 and bf16 weights.
#     sh tests/apps/quantize.sh PROGRAM SOURCE_ROOT MAKE_DECODER
# Prints TAP.
maker=$(realpath "$3")
. "$(dirname "$0")/common.sh"
unoptimized

run quantize "$demo"
check "quantize without -o and --check is a usage error" one_sentence 2 '-o is needed'
run quantize "$demo" -o "$demo"
check "quantize refuses to write into the model's own directory" one_sentence 1 'own directory'
run quantize "$demo" -o other --precision q4_0
check "quantize --precision q4_0 needs a GGUF file" one_sentence 2 'give -o a name that ends in .gguf'
run quantize "$demo" -o demo.gguf --precision int8
check "quantize writes no int8 GGUF file" one_sentence 1 'use --precision q8_0'
run quantize "$demo" -o demo.gguf
check "quantize names a family that GGUF does not have" one_sentence 1 'there is no architecture for the family marian'
check "quantize leaves no GGUF file after a failure" [ ! -e demo.gguf ]
run quantize "$demo" -o bytes
check "quantize prints the parameters and dtype of the int8 model" both 0 says out '^bytes: .* million parameters, I8;'
check "quantize writes at most 6 MB for the demo model" [ "$(wc -c <bytes/model.safetensors)" -le 6000000 ]
check "quantize copies the tokenizer" same bytes/source.spm "$demo/source.spm"
run quantize "$demo" -o bytes
check "quantize does not overwrite an existing model" one_sentence 1 'bytes holds a model already (config.json)'
cp -r "$demo" ran
touch ran/checkpoint.safetensors ran/train.jsonl ran/recipe.json
mkdir ran/snapshots
touch ran/snapshots/1.safetensors
run quantize ran -o of-a-run
check "quantize does not copy a training run's checkpoints and logs" [ "$code" = 0 -a -f of-a-run/source.spm -a \
    -z "$(ls of-a-run | grep -E 'checkpoint|train.jsonl|recipe|snapshots')" ]
rm -rf ran of-a-run
run info bytes
check "info lists no training for an int8 model" says out '^commands  *translate, score, eval, attention$'
run quantize bytes -o again
check "quantize rejects a model that is int8 already" one_sentence 1 'quantized already'
unkept run translate -m "$demo" --precision int8 --beam-size 1 -i "$demo/test.de"
mv out want
check "translate --precision int8 prints one line per input line" [ "$(wc -l <want)" = 20 ]
unkept run translate -m bytes --beam-size 1 -i "$demo/test.de"
check "translate of an int8 model equals --precision int8 of the fp16 model" same out want
unkept run score -m bytes --src "$demo/test.de" --tgt "$demo/greedy.en"
mv out want
unkept run score -m "$demo" --precision int8 --src "$demo/test.de" --tgt "$demo/greedy.en"
check "score of an int8 model equals --precision int8 of the fp16 model" same out want
unkept run eval -m bytes --src "$demo/test.de" --ref "$demo/greedy.en" --beam-size 1
check "eval of an int8 model has a BLEU of at least 80 against greedy fp32" [ "$(sed -n 's/^BLEU = \([0-9]*\).*/\1/p' out)" -ge 80 ]
# 16 bits: the demo's weights are fp16, so fp16 is lossless; bf16 has fewer digits.
unkept run translate -m "$demo" --precision fp16 --beam-size 1 -i "$demo/test.de"
check "translate --precision fp16 gives the original framework's text" same out "$demo/greedy.en"
unkept run eval -m "$demo" --precision bf16 --src "$demo/test.de" --ref "$demo/greedy.en" --beam-size 1
check "eval --precision bf16 has a BLEU of at least 90 against greedy fp32" [ "$(sed -n 's/^BLEU = \([0-9]*\).*/\1/p' out)" -ge 90 ]
# 4 bits: 704 inputs of fc2 are no multiple of 128.
run quantize "$demo" -o four --precision int4 --group 128
check "quantize --precision int4 prints the layer that halves the group" [ "$code" = 0 -a \
    "$(grep -c 'groups of 64 instead of 128, because .*fc2.weight has 704 inputs' err)" = 1 ]
check "quantize --precision int4 writes at most 6 MB for the demo model" [ "$(wc -c <four/model.safetensors)" -le 6000000 ]
check "quantize --precision int4 writes the layout of compressed-tensors" grep -q '"group_size": 64' four/config.json
run info four
check "info names int4 weights" says out 'compressed-tensors int4 44 tensors'
check "info lists no training for an int4 model" says out '^commands  *translate, score, eval, attention$'
run quantize four -o again
check "quantize rejects a model that is int4 already" one_sentence 1 'quantized already'
run quantize "$demo" -o again --precision int4 --calibrate "$demo/test.de"
check "quantize refuses to calibrate an encoder-decoder" one_sentence 1 'which calibration does not support'
run quantize "$demo" -o again --group 64
check "quantize refuses --group without int4" one_sentence 2 'are options of --precision int4'
unkept run eval -m four --src "$demo/test.de" --ref "$demo/greedy.en" --beam-size 1
check "eval of an int4 model has a BLEU of at least 40 against greedy fp32" [ "$(sed -n 's/^BLEU = \([0-9]*\).*/\1/p' out)" -ge 40 ]
run train -o more --init-from bytes --src "$demo/test.de" --tgt "$demo/greedy.en"
check "train --init-from refuses an int8 model" one_sentence 1 'weights are int8, which cannot be trained'

# --check: perplexity, KL divergence and top-1 tokens; BLEU; cosine similarity.
printf '%s\n' "w3 w14 w15 w9 w26" "w5 w35 w8" >text
unkept run quantize bytes --check "$demo/test.de"
check "quantize --check without -o compares an int8 translation model with fp32 by BLEU" both 0 says out \
    '^BLEU  *\(100\|[89][0-9]\)\.[0-9]* of its translations against those of fp32$'
unkept run quantize "$demo" -o checked --precision fp16 --check "$demo/test.de"
check "quantize --check compares the model it wrote: fp16 of an fp16 model gives equal translations" both 0 says out \
    '^equal translations  *100.0 %$'
mkdir decoder
"$maker" decoder && python3 "$root/tests/serve/make_words.py" decoder
unkept run quantize decoder -o decoder-int8 --check text
check "quantize --check of a decoder-only model prints perplexity, KL divergence and equal top-1 tokens" [ "$code" = 0 -a \
    "$(grep -cE '^(perplexity  .*[0-9], fp32 [0-9].*%\)|mean KL divergence  *[0-9.]*|equal top-1 token  *[0-9.]* %)$' out)" = 3 ]
check "quantize --check of an int8 decoder-only model finds a KL divergence below 0.003" \
    grep -qxE 'mean KL divergence   0.00[0-2][0-9]*' out
sed 1d out >want
check "quantize of a decoder-only model writes scales of 32 inputs" says decoder-int8/config.json 'scale and minimum for each 32 inputs'
unkept run quantize decoder --precision int8 --check text
check "quantize --check --precision without -o compares the model opened with it" same out want
unkept run quantize decoder --precision int8 --activation-precision fp32 --check text
check "quantize --check takes --activation-precision" both 0 says out '^mean KL divergence   0.00[0-2]'
run quantize decoder -o other --activation-precision fp32
check "quantize refuses --activation-precision without --check" one_sentence 2 'is for --check'
run quantize decoder --precision int4 --check text
check "quantize --check of int4 needs a directory to write" one_sentence 2 'without -o, --precision is int8, fp16 or bf16'
unkept run generate -m decoder --activation-precision int8 w3
check "generate refuses an unknown --activation-precision" one_sentence 2 'auto|fp32'
unkept run quantize decoder --precision fp16 --check text
check "quantize --check of an unquantized model finds no difference" [ "$code" = 0 -a \
    "$(grep -cxE 'mean KL divergence   0.00000|equal top-1 token    100.0 %' out)" = 2 ]
unkept run quantize "$root/tests/golden/embedder" -o embedder-int8 --check text
check "quantize --check of an encoder prints the cosine similarity of embeddings" both 0 says out \
    '^cosine similarity  *0.99[0-9]* on average, at least 0.9[0-9]*$'
run quantize "$demo" --check empty
check "quantize --check names a file that does not exist" one_sentence 1 'empty'

echo "1..$count"
