# tfm train: other text and vocabulary formats.
. "$(dirname "$0")/common.sh"

begin tsv --tsv text.tsv --valid-tsv valid.tsv --max-steps 4 --eval-steps 2
begin two $files --valid-src valid.de --valid-tgt valid.en --max-steps 4 --eval-steps 2
check "train --tsv gives the parameters of two files" both 0 alike tsv two
check "train --valid-src holds no training pair out" says err ' 10 pairs for validation'
begin given --tsv text.tsv --valid-tsv valid.tsv --max-steps 4 --eval-steps 2 --vocab two
check "train --vocab with the vocabulary it would build gives the same parameters" both 0 alike given two
begin separate $files --max-steps 1 --separate-vocab --vocab-size 60 --source-lang de --target-lang en
check "train --separate-vocab writes two vocabularies" [ "$code" = 0 -a -s separate/target_vocab.json ]
check "train --source-lang --target-lang are saved in the tokenizer" python3 -c '
import json
config, recipe = (json.load(open("separate/" + name)) for name in ("tokenizer_config.json", "recipe.json"))
assert (config["source_lang"], config["target_lang"]) == ("de", "en"), config
assert (recipe["source-lang"], recipe["target-lang"]) == ("de", "en"), recipe'
resume separate --source-lang fr
check "train --resume --source-lang is a usage error" one_sentence 2 '--source-lang cannot change in a resumed run'
run translate -m separate -i valid.de
check "train --separate-vocab writes a model that translates" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
begin given $files --max-steps 1 --vocab separate
check "train --vocab accepts two vocabularies" [ "$code" = 0 ] && cmp separate/target.spm given/target.spm
for vocabulary in two/vocab.json separate/target_vocab.json; do # written by other programs: the padding token is in the configuration
    cp -r ${vocabulary%/*} padless
    sed 's/"<pad>"/"<none>"/' $vocabulary >padless/${vocabulary#*/}
    begin given $files --max-steps 1 --vocab padless
    check "train --vocab rejects ${vocabulary#*/} without <pad>" one_sentence 1 "padless/${vocabulary#*/} has no <pad>"
    rm -r padless
done
for option in '--unigram --vocab-size 70' '--normalization nfkc_cf' '--character-coverage 0.99 --vocab-lines 50'; do
    # shellcheck disable=SC2086
    begin other $files --max-steps 1 --average 0 $option
    check "train $option changes the vocabulary" [ "$code" = 0 -a "$(cmp -s other/source.spm two/source.spm || echo others)" = others ]
done

begin apart $files --max-steps 2 --separate-vocab --hold-out 0 --average 0
check "train --separate-vocab builds vocabularies of what the text gives" both 0 [ -s apart/target_vocab.json ]
check "train --separate-vocab has the same padding token in both" [ "$(grep -h '<pad>' apart/vocab.json apart/target_vocab.json | sort -u)" = ' "<pad>": 2' ]

# shellcheck disable=SC2086
begin exact $files --max-steps 1 --average 0 --normalization identity
printf '\t\n \v\n' | "$tfm" translate -m exact --scores >out 2>err
check "translate of blanks that the vocabulary does not have gives an empty line" [ "$(wc -c <out)" = 2 ]

latin=$(printf 'm\374ll')
# shellcheck disable=SC2086
begin "$latin" $files --max-steps 2 --average 0
resume "$latin" --max-steps 3
check "train -o accepts a directory name with invalid UTF-8" [ "$code" = 0 -a -s "$latin/curves.svg" ]

echo "1..$count"
