# tfm train --init-from a multilingual model: source and target languages.
. "$(dirname "$0")/common.sh"

plan="$files --eval-steps 4 --logging-steps 1 --warmup-steps 2 --average 2 --hold-out 8 --batch-tokens 128 --max-length 40"
golden=$root/tests/golden/families

# model DIR GOLDEN CLASS CODE...: a small model whose tokenizer has most words of `text`, and languages
model() {
    dir=$1
    from=$2
    class=$3
    shift 3
    mkdir "$dir"
    cp "$golden/$from/config.json" "$golden/$from/generation_config.json" "$golden/$from/model.safetensors" "$dir"
    tr ' ' '\n' <text.de | sort -u >words
    tr ' ' '\n' <text.en | sort -u >>words
    {
        printf '{"pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": ['
        id=0
        for name in '<s>' '<pad>' '</s>' '<unk>' "$@"; do
            printf '%s{"id": %d, "content": "%s", "special": true}' "$([ $id = 0 ] || echo ,)" $id "$name"
            id=$((id + 1))
        done
        printf '], "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {'
        id=0
        for name in '<s>' '<pad>' '</s>' '<unk>' "$@" $(cat words); do
            printf '%s"%s": %d' "$([ $id = 0 ] || echo ,)" "$name" $id
            id=$((id + 1))
        done
        printf '}}}'
    } >"$dir/tokenizer.json"
    echo "{\"tokenizer_class\": \"$class\", \"eos_token\": \"</s>\", \"pad_token\": \"<pad>\"}" >"$dir/tokenizer_config.json"
}
sed 1q text.de >line

model nllb m2m_100-nllb-f16 NllbTokenizer deu_Latn eng_Latn fra_Latn
# shellcheck disable=SC2086 # words, here and below
run train -o tuned --init-from nllb --source-lang deu_Latn --target-lang eng_Latn $plan --max-steps 8 --learning-rate 0.01
check "train --init-from a multilingual model trains" both 0 says err '^update 8/8 '
check "train --init-from a multilingual model saves the forced first token" says tuned/generation_config.json '"forced_bos_token_id": 5'
check "train --init-from a multilingual model saves the languages of the tokenizer" [ "$(grep -c '"src_lang": "deu_Latn"\|"tgt_lang": "eng_Latn"' tuned/tokenizer_config.json)" = 2 ]
run translate -m tuned -i line
cp out plain
run translate -m tuned --source-lang deu_Latn --target-lang eng_Latn -i line
check "translate uses the languages saved by train" both 0 cmp plain out
run train -o tuned2 --init-from nllb --source-lang deu_Latn --target-lang eng_Latn $plan --max-steps 5 --learning-rate 0.01
resume tuned2 --max-steps 8
check "train --resume keeps the languages" both 0 cmp tuned/snapshots/00000008.safetensors \
    tuned2/snapshots/00000008.safetensors
run train -o other --init-from nllb --source-lang fra_Latn --target-lang eng_Latn $plan --max-steps 8 --learning-rate 0.01
check "train --init-from with another source language is another run" [ "$code" = 0 ]
check "train --init-from with another source language gives other parameters" [ -n "$(cmp tuned/snapshots/00000008.safetensors other/snapshots/00000008.safetensors)" ]
run train -o none --init-from nllb --source-lang deu_Latn --target-lang eng $plan
check "train --init-from rejects a target language that the model does not have" one_sentence 1 'did you mean eng_Latn'
run train -o none --init-from nllb --source-lang xyz --target-lang eng_Latn $plan
check "train --init-from rejects a source language that the model does not have" one_sentence 1 "source language 'xyz'"
check "train --init-from with an unknown language leaves no run" [ ! -e none/recipe.json ]

# The first mBART models start decoding with the language token.
model mbart mbart-languages-f16 MBartTokenizer de_DE en_XX
rm mbart/generation_config.json
sed 's/"decoder_start_token_id": 2/"decoder_start_token_id": 4/' mbart/config.json >new
mv new mbart/config.json
run train -o mtuned --init-from mbart --source-lang de_DE --target-lang en_XX $plan --max-steps 8 --learning-rate 0.01
check "train --init-from an mBART-25 model trains" both 0 says err '^update 8/8 '
check "train --init-from an mBART-25 model starts decoding with the language" says mtuned/generation_config.json \
    '"decoder_start_token_id": 5'

run train -o plain0 --init-from tuned $plan --max-steps 8
check "train --init-from a model with saved languages needs no language options" both 0 says err '^update 8/8 '

echo "1..$count"
