# tfm score.
#     sh tests/apps/score.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

run score -m "$demo" --src "$demo/test.de" --tgt "$demo/beam4.en"
check "score prints log probability, tokens and mean for each pair" [ "$code" = 0 -a "$(grep -cE '^-[0-9.]+	[0-9]+	-[0-9.]+$' out)" = 20 ]
awk '{ printf "%.6f\n", $1 / ((5 + $2) / 6) ^ 0.6 }' out >scores
check "score gives the scores of beam search" close_to scores "$demo/beam4.scores" 1
run score -m "$demo" --src "$demo/test.de" --tgt two.de
check "score rejects files with different numbers of lines" one_sentence 1 'has 20 lines'
check "score names both files with different numbers of lines" says err 'two.de 2'
printf 'Danke.\nDanke.\nDanke.\n' >source
printf 'Thank you.\nTh\000ank.\nTh\377ank.\n' >target
run score -m "$demo" --src source --tgt target
check "score names pairs with invalid lines, leaves them empty and exits with 1" [ "$code" = 1 -a "$(grep -c 'target, line [23]' err)" = 2 -a "$(grep -c '^$' out)" = 2 ]
printf 'Th\377ank.\n' >target
run score -m "$demo" --src target --tgt target --perplexity -o whole
check "score --perplexity of invalid lines leaves no file" [ "$code" = 1 -a "$(echo whole*)" = 'whole*' ]
check "score --perplexity of invalid lines names no partial file" [ "$(grep -c partial err)" = 0 ]
run score -m "$demo" --text /dev/null
check "score --text without a line refuses a translation model" one_sentence 1 'is an encoder-decoder model (marian): use --src and --tgt'

run score -m "$demo" --src source --tgt target --ctx-size 9
check "score --ctx-size without --text is a usage error" one_sentence 2 '--ctx-size is for --text'
run translate -m "$demo" --kv-precision int8 <"$demo/test.de"
check "translate --kv-precision int8 translates" both 0 [ "$(wc -l <out)" = 20 ]

echo "1..$count"
