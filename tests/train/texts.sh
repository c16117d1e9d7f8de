# tfm train --text: language models on plain text.
. "$(dirname "$0")/common.sh"

small="--width 32 --heads 4 --ffn-dim 64 --decoder-layers 1 --batch-tokens 128 --seq-len 16"
plan="--max-steps 12 --eval-steps 4 --logging-steps 2 --warmup-steps 2 --learning-rate 0.01 --average 2"

# shellcheck disable=SC2086 # words, here and below
begin gpt --text text.en $plan
check "train --text prints one line of result" both 0 says out '^gpt: 12 updates; best on validation: ppl [0-9.]*$'
check "train --text prints parameters, vocabulary and validation texts" says err '^gpt: [0-9]* parameters, vocabulary of [0-9]*, 12 texts for validation$'
check "train --text prints the number of texts" says err '^228 texts for training$'
check "train --text prints validation perplexity" says err '^update 4  valid  ppl [0-9.]*  best so far$'
check "train --text leaves no temporary file" tidy gpt
check "train --text writes JSON lines into train.jsonl" json_lines gpt/train.jsonl
check "train --text validates without BLEU" grep -q '^{"type":"valid","update":4,"nll":[0-9.]*,"ppl":[0-9.]*,"best":true,' gpt/train.jsonl
check "train --text lowers the loss" python3 -c '
import json
lines = [json.loads(l) for l in open("gpt/train.jsonl")]
ppl = [l["ppl"] for l in lines if l["type"] == "valid"]
assert ppl[-1] < 0.7 * ppl[0], ppl
recipe, config = json.load(open("gpt/recipe.json")), json.load(open("gpt/config.json"))
assert recipe["text"] == ["../text.en"] and recipe["max-positions"] == 16 and recipe["label-smoothing"] == 0, recipe
assert config["architectures"] == ["GPT2LMHeadModel"] and config["n_positions"] == 16, config'
if renders; then
    check "train --text renders loss curves" grep -q '</svg>' gpt/curves.svg
else
    skip "train --text renders loss curves" "$(cat err)"
fi
cp -r gpt again
begin gpt --text text.en $plan
check "train --text repeated gives the same parameters" alike gpt again
head -n 100 text.en >one.en
tail -n +101 text.en >two.en
begin parts --text one.en --text two.en $plan
check "train with two --text files gives the parameters of one file of both" both 0 alike parts again
{ head -n 6 two.en && printf '\377\n'; } >bad.en
begin strict --text one.en --text bad.en --valid-text valid.en $plan --strict
check "train --text --strict names the file and its line" one_last 1 'bad.en, line 7: '
head -n 20 one.en >round.en
{ head -n 9 two.en && printf '\377\n'; } >bad.en
begin strict --text round.en --text bad.en $plan --strict
check "train --text --strict names lines of held-out text" one_last 1 'bad.en, line 10: '
begin apart --text one.en --valid-text valid.en $plan
check "train --valid-text holds no training text out" says err ' 10 texts for validation'

begin llama --text text.en --family llama --kv-heads 2 $plan
check "train --family llama writes a Llama model" both 0 grep -q '"LlamaForCausalLM"' llama/config.json
cp -r llama whole
begin llama --text text.en --family llama --kv-heads 2 $plan --max-steps 5
resume llama --max-steps 12
check "train --text resumed gives the same parameters" both 0 cmp llama/snapshots/00000012.safetensors whole/snapshots/00000012.safetensors
mv text.en moved.en
resume llama --max-steps 13
check "train --resume names a --text file that does not exist" one_sentence 1 'if it was moved, give its new name by --text FILE'
resume llama --max-steps 13 --text moved.en
check "train --resume accepts a --text file at another path" [ "$code" = 0 ] && grep -q '"../moved.en"' llama/recipe.json
mv moved.en text.en

# ---- Opening the model
for model in gpt llama; do
    run generate -m $model --min-new-tokens 4 --max-new-tokens 5 "one two"
    check "generate opens the $model model of train --text" [ "$code" = 0 -a "$(wc -w <out)" -gt 1 ]
    run info $model
    check "info opens the $model model of train --text" both 0 says out 'decoder'
    run score -m $model --text valid.en
    check "score opens the $model model of train --text" [ "$code" = 0 -a "$(grep -cE '^-[0-9.]+	[0-9]+	-[0-9.]+$' out)" = 10 ]
    awk '{ sum += $1; n += $2 } END { printf "%.2f %d\n", exp(-sum / n), n }' out >want
    run score -m $model --text valid.en --perplexity
    check "score of the $model model gives the perplexity of the lines" [ "$(awk '{ printf "%.2f %d\n", $3, $9 }' out)" = "$(cat want)" ]
    run score -m $model --text valid.en --perplexity --score-eos
    check "score --score-eos of the $model model counts the end tokens" [ "$(sed 's/.* tokens = //' out)" = $(($(sed 's/.* //' want) + 10)) ]
done
run score -m gpt --text text.en --perplexity --score-eos
tr '\n' ' ' <text.en >long
run score -m gpt --text long
check "score splits a line longer than the context" [ "$code" = 0 -a "$(cut -f2 out)" -gt 500 ]
run score -m gpt --src text.de --tgt text.en
check "score of pairs refuses a decoder-only model" one_sentence 1 'is a decoder-only model (gpt2): use --text'
run translate -m gpt </dev/null
check "translate without a line of input refuses a decoder-only model" one_sentence 1 'gpt is a decoder-only model (gpt2): use tfm generate'
run score -m gpt --text text.en --tgt text.en
check "score with --text and pairs is a usage error" one_sentence 2 "does not go with --src"

# ---- Resuming
run train -o tuned --init-from llama --text text.en $plan --max-steps 4 --seq-len 8 --batch-tokens 128 --freeze 'model.embed_tokens.*'
check "train --text --init-from fine-tunes a decoder-only model" both 0 says out '^tuned: 4 updates'
run generate -m tuned --min-new-tokens 2 --max-new-tokens 3 "one"
check "generate opens a fine-tuned decoder-only model" [ "$code" = 0 ]
run train -o other --init-from llama --src text.de --tgt text.en
check "train --init-from a decoder-only model rejects pairs" one_sentence 1 'it is trained on plain text, give --text'
run train -o other --init-from llama --text text.en --seq-len 17
check "train --init-from rejects --seq-len above the model's context" one_sentence 1 'takes up to 16 tokens'
run train -o shorter --init-from llama --text text.en $plan --max-steps 1 --batch-tokens 128
check "train --init-from limits the block to the model's context" both 0 grep -q '"seq-len": 16' shorter/recipe.json
run train -o other --init-from llama --text text.en --family llama
check "train --init-from with another --family is a usage error" one_sentence 2 '--family'
run train -o other --init-from "$root/apps/demo" --text text.en
check "train --init-from a translation model rejects --text" one_sentence 1 'it is trained on pairs'
check "train --text --init-from that is rejected leaves no run" [ ! -e other/recipe.json ]
run train -o vocab $small --text text.en --vocab gpt --max-steps 1
check "train --text --vocab takes the tokenizer of another model" both 0 cmp gpt/tokenizer.json vocab/tokenizer.json
begin unigram --text text.en --unigram --vocab-size 60 --max-steps 2 --average 0
run generate -m unigram --max-new-tokens 3 "one two"
check "train --text --unigram builds a unigram vocabulary" [ "$code" = 0 ]

# ---- Errors
for wrong in 'src text.de' 'valid-src text.de' 'tsv text.tsv' 'max-length 9' 'encoder-layers 2' 'source-lang de' 'subword-alpha 0.1' \
    'valid-beam-size 2'; do
    begin wrong --text text.en --$wrong
    check "train --text with --${wrong% *} is a usage error" one_sentence 2 "--${wrong% *} is for pairs of lines"
done
begin wrong --text text.en --max-positions 8
check "train --seq-len above --max-positions is a usage error" one_sentence 2 '--seq-len 16 is more than --max-positions 8'
begin wrong --text text.en --kv-heads 2
check "train --kv-heads with GPT-2 is a usage error" one_sentence 2 '--kv-heads 2'
begin wrong --text nowhere
check "train --text names a file that does not exist" one_sentence 1 'cannot read --text nowhere: No such file'
: >empty
begin wrong --text empty --vocab gpt
check "train --text rejects an empty file" one_last 1 'empty: there is no line of text to train on'
small=
begin wrong $files --family llama
check "train --family with pairs is a usage error" one_sentence 2 'are for runs on --text'
begin wrong $files --valid-text valid.en
check "train --valid-text with pairs is a usage error" one_sentence 2 '--valid-text is for runs on --text'
resume gpt --seq-len 8
check "train --resume --seq-len is a usage error" one_sentence 2 '--seq-len cannot change in a resumed run'
check "train --text with a usage error makes no directory" [ ! -e wrong/recipe.json ]

echo "1..$count"
