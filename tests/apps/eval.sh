# tfm eval: BLEU, chrF2 and perplexity of files and of a model.
#     sh tests/apps/eval.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

cat >want <<EOF
BLEU = 20.54 77.8/42.9/10.0/8.3 (BP = 0.895 ratio = 0.900 hyp_len = 9 ref_len = 10)
chrF2 = 41.9
signature = nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tfm-$("$tfm" --version | cut -d' ' -f2)
EOF
printf 'The cat, sat down.\n\303\204pfel & \303\226l\n' >hyp
printf 'The cat sat down there.\n\303\244pfel &amp; \303\226l.\n' >ref
translate -i two.de # so that no later run reports building kernels
run eval --hyp hyp --ref ref
check "eval of two files prints BLEU, chrF2 and signature" same out want
sed 's/$/\r/' hyp >hyp.crlf
run eval --hyp - --ref ref <hyp.crlf
check "eval accepts a pipe with CR LF line ends" same out want
run eval --hyp hyp --ref ref --lowercase --tokenize char
check "eval --lowercase --tokenize char appear in the signature" both 0 says out '|case:lc|eff:no|tok:char|'
check "eval --lowercase --tokenize char change the BLEU" says out '^BLEU = 50.52 95.7/'
run eval --hyp hyp --ref hyp --json
check "eval --json of identical files has a BLEU of 100 and no perplexity" [ "$(python3 -c 'import json; r = json.load(open("out")); print(round(r["bleu"], 6), r["chrf2"], r["hyp_len"], r["ref_len"], r["lines"], "ppl" in r)')" = \
    "100.0 100.0 9 9 2 False" ]
echo more >>ref
run eval --hyp hyp --ref ref
check "eval rejects more reference than hypothesis lines" one_sentence 1 'hyp has 2 lines, ref 3'
run eval --hyp ref --ref hyp
check "eval rejects more hypothesis than reference lines" one_sentence 1 'ref has 3 lines, hyp 2'
run eval -m "$demo" --src hyp --ref ref
check "eval with a model rejects different numbers of lines" one_sentence 1 'hyp has 2 lines, ref 3'
check "eval with different numbers of lines prints no score" [ ! -s out ]
run eval --hyp /dev/null --ref /dev/null
check "eval of empty files is an error" one_sentence 1 'nothing to evaluate'
printf 'Danke.\nDan\377ke.\n' >bad
run eval --hyp bad --ref hyp
check "eval names a hypothesis line with invalid UTF-8" one_sentence 1 'bad, line 2: byte 4'
run eval --hyp hyp --ref bad
check "eval names a reference line with invalid UTF-8" one_sentence 1 'bad, line 2: byte 4'
run eval -m "$demo" --src hyp --ref bad
check "eval with a model names a reference line with invalid UTF-8" one_sentence 1 'bad, line 2: byte 4'
run eval --hyp nowhere --ref hyp
check "eval names a file that does not exist" one_sentence 1 'nowhere'
run eval --hyp hyp
check "eval without --ref is a usage error" one_sentence 2 '--ref'
run eval --ref hyp
check "eval without --hyp or a model is a usage error" one_sentence 2 '--hyp'
run eval -m "$demo" --hyp hyp --ref hyp
check "eval with a model and --hyp is a usage error" one_sentence 2 '--hyp'
for option in 'beam-size 4' 'length-penalty 0.6' 'length-norm paper' 'max-length 9' 'batch-tokens 9' truncate 'precision fp32' 'device cpu'; do
    # shellcheck disable=SC2086 # words
    run eval --hyp hyp --ref hyp --$option
    check "eval --hyp with --${option% *} is a usage error" one_sentence 2 "--${option% *} needs a model"
done
run eval --hyp - --ref -
check "eval with two files from standard input is a usage error" one_sentence 2 'standard input'
run eval --hyp hyp --ref hyp --tokenize intl
check "eval with an unknown --tokenize is a usage error" one_sentence 2 '13a|none|char'
run eval -m "$demo" --src "$demo/test.de" --ref "$demo/beam4.en" --beam-size 4 --length-penalty 0.6
check "eval with a model translates as translate does" both 0 says out '^BLEU = 100.00 '
check "eval with a model prints a perplexity" [ "$(sed -n '4s/^ppl = [0-9.]*$/ppl/p' out)" = ppl ]
run eval -m "$demo" --src "$demo/test.de" --ref "$demo/beam4.en" --beam-size 1 --json
"$tfm" eval --hyp "$demo/greedy.en" --ref "$demo/beam4.en" --json >files
"$tfm" score -m "$demo" --src "$demo/test.de" --tgt "$demo/beam4.en" >scores
check "eval with a model gives the BLEU of the files and the perplexity of score" python3 -c '
import json, math
model, files = json.load(open("out")), json.load(open("files"))
scores = [line.split("\t") for line in open("scores")]
ppl = math.exp(-sum(float(s[0]) for s in scores) / sum(int(s[1]) for s in scores))
assert abs(model.pop("ppl") / ppl - 1) < 1e-5 and model == files, (model, files, ppl)'
printf '%s\nDan\377ke.\n%s\n' "$german" "$german" >source
printf '%s\n%s\n%s\n' "$english" "$english" "$english" >target
run eval -m "$demo" --src source --ref target
check "eval names a source line with invalid UTF-8 once" one_sentence 1 'line 2 of source and target'
check "eval counts a source line with invalid UTF-8 as an empty translation" [ \
    "$(sed -n 's/^BLEU .* hyp_len = \([1-9][0-9]*\) ref_len = \([0-9]*\))$/\1 \2/p' out | awk '{ print 3 * $1 == 2 * $2 }')" = 1 ]
check "eval leaves a source line with invalid UTF-8 out of the perplexity" says out '^ppl = [1-9]'

echo "1..$count"
