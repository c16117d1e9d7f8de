# tfm translate: search, scores, prefixes, placeholders, --split and --json.
#     sh tests/apps/translate.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

# ---- Search and scores
translate --beam-size 1 -i "$demo/test.de"
check "translate with greedy search gives the original framework's text" same out "$demo/greedy.en"
translate --beam-size 4 --length-penalty 0.6 -i "$demo/test.de"
check "translate with beam size 4 gives the original framework's text" same out "$demo/beam4.en"
translate --beam-size 4 --length-penalty 0.6 --scores <"$demo/test.de"
check "translate --scores gives the original framework's scores" close_to out "$demo/beam4.scores" 2
check "translate --scores prints each score after a tab" [ "$(cut -f1 out | cmp - "$demo/beam4.en" && echo same)" = same ]
translate --batch-tokens 16 --stats <"$demo/test.de"
check "translate --batch-tokens 16 does not change the translations" same out "$demo/beam4.en"
check "translate --stats prints one JSON line last on stderr" [ "$(tail -n 1 err | sed 's/:[0-9.]*/:N/g')" = \
    'stats {"sentences":N,"source_tokens":N,"target_tokens":N,"load_seconds":N,"build_seconds":N,"seconds":N,"sentences_per_s":N,"tokens_per_s":N}' ]
check "translate --stats counts the sentences" says err '"sentences":20,'
translate --beam-size 4 --n-best 3 <"$demo/test.de"
check "translate --n-best 3 prints three hypotheses a line" [ "$(grep -cE '^[0-9]+ \|\|\| .* \|\|\| -?[0-9.]+$' out)" = 60 ]
check "translate --n-best 3 numbers the lines from 0" [ "$(head -n 1 out | cut -d' ' -f1) $(tail -n 1 out | cut -d' ' -f1)" = "0 19" ]
sed -n '1~3s/^[0-9]* ||| \(.*\) ||| .*$/\1/p' out >best
check "translate --n-best 3 prints the best hypothesis first" cmp -s best "$demo/beam4.en"
printf 'The\n\n' >two.prefix
translate --prefix-file two.prefix -i two.de
check "translate --prefix-file forces the beginning of a translation" both 0 says out '^The'
check "translate --prefix-file with an empty line forces nothing" [ "$(sed -n 2p out)" = "$(sed -n 2p "$demo/beam4.en")" ]
translate --prefix-file two.prefix -i "$demo/test.de"
check "translate rejects a prefix file with too few lines" one_sentence 1 'two.prefix has 2 lines'
translate -i two.de
cp out plain
printf '\n\n\n' >three.prefix
translate --prefix-file three.prefix -i two.de -o result
check "translate rejects a prefix file with too many lines" one_sentence 1 'three.prefix has 3 lines, two.de 2'
check "translate with too many prefix lines still writes the translations" cmp -s result plain
rm -f result
{ yes 'I do not know' | head -n 40 | tr '\n' ' ' && echo && echo The; } >long.prefix
translate --prefix-file long.prefix -i two.de
check "translate rejects a prefix that does not fit the maximum length" both 1 says err 'line 1: its prefix: it has [0-9]* tokens and its translation may have '
check "translate writes an empty line for a rejected prefix and continues" [ "$(sed -n 1p out)$(sed -n 2p out | cut -c1-3)" = The ]
printf 'Auto\ttruck\n# Haus\thouse\nHaus\tschool\n' >terms.tsv
echo 'Das Auto steht vor dem Haus.' >car.de
translate --glossary terms.tsv -i car.de
check "translate --glossary writes the translations of terms" both 0 [ "$(cat out)" = 'The truck is parked in front of the school.' ]
translate --glossary terms.tsv -i two.de
check "translate --glossary leaves lines without terms" same out plain
printf 'Auto\ttruck\nHaus\n' >wrong.tsv
translate --glossary wrong.tsv -i car.de
check "translate --glossary names a line without a tab" one_sentence 1 'wrong.tsv, line 2: a term is a source text, a tab and its translation'
: >empty.tsv
translate --glossary empty.tsv -i car.de
check "translate --glossary names a file without a term" one_sentence 1 'empty.tsv has no term'
translate --glossary terms.tsv --n-best 2 -i car.de
check "translate --glossary refuses --n-best" one_sentence 2 'do not go together'
translate --prefix-file - <two.de
check "translate reads only one of its files from standard input" one_sentence 2 'only one of the files can be standard input'

# Other model directories: <unk> suppressed; the padding token is the end-of-sentence token.
cp -r "$demo" unknown && sed 's/5000 *$/1/' "$demo/generation_config.json" >unknown/generation_config.json
printf '☃ I\n\n' >two.prefix
run translate -m unknown --prefix-file two.prefix -i two.de
check "translate rejects a prefix with a token that the model never generates" both 1 says err 'line 1: its prefix: it contains token 1, which this model never generates'
check "translate translates the other lines after a rejected prefix" [ "$(sed -n 2p out)" = "$(sed -n 2p "$demo/beam4.en")" ]
printf 'Guten Morgen.\n' >one.de
printf 'Good morning ☃.\n' >one.en
run score -m "$demo" --src one.de --tgt one.en
cp out plain
run score -m unknown --src one.de --tgt one.en
check "score accepts target tokens that generation suppresses" same out plain
cp -r "$demo" padless && python3 - padless <<'END'
import json, sys
for name in "config.json", "generation_config.json", "vocab.json":
    path = sys.argv[1] + "/" + name
    values = json.load(open(path))
    values.pop("<pad>", None)
    values.pop("bad_words_ids", None)
    if name != "vocab.json":
        values["pad_token_id"] = values["eos_token_id"]
    json.dump(values, open(path, "w"))
END
run translate -m padless -i two.de
head -n 2 "$demo/beam4.en" >want
check "translate works where the padding token is the end-of-sentence token" same out want
translate --length-norm hf --length-penalty 1 --scores -i two.de
check "translate --length-norm hf --length-penalty 1 gives scores" both 0 says out '	-0\.'
translate --max-length 2 -i two.de
check "translate --max-length limits the length of a translation" [ "$(wc -w <out)" -le 4 ]

# ---- Placeholders
printf '%s\n' 'Hallo %1$s, guten Morgen!' 'Ich bin in ${city}.' 'Danke.' '%s: %d' 'Sie haben %d neue Nachrichten 😀.' >placed
translate -i placed
check "translate copies placeholders into the translation" eval '[ "$(cut -d, -f1 out | head -1)" = "Hello %1\$s" ] &&
    [ "$(sed -n 2p out)" = "I'"'"'m in \${city}." ] && sed -n 5p out | grep -q " %d .* 😀"'
check "translate copies a line of placeholders only" [ "$(sed -n 4p out)" = '%s: %d' ]
translate --n-best 2 -i placed
check "translate --n-best copies placeholders into every hypothesis" [ "$(grep -c '[{]city}' out) $(grep -c '%1.s' out)" = '2 2' ]
translate --json --alignments -i placed
check "translate --json --alignments aligns a placeholder with itself" python3 -c 'import json
found = json.loads(open("out").readlines()[1])
row = [t["piece"] for t in found["tokens"]].index("▁${city}")
assert found["tokens"][row]["id"] == -1
assert found["alignment"][row] == [float(s["piece"] == "▁${city}") if isinstance(s, dict) else float(s == "▁${city}") for s in found["source"]]'
echo 'Ich bin in ACME.' | "$tfm" translate -m "$demo" --keep 'AC\w+' --keep b+ >out 2>err
check "translate --keep adds placeholder patterns" grep -q ' ACME\.$' out
translate --no-keep -i placed
check "translate --no-keep passes placeholders to the model" [ "$(grep -c '[{]city}' out)" = 0 ]
translate --keep '(' -i placed
check "translate --keep rejects an invalid regular expression" one_sentence 2 '--keep: the regular expression "(" is invalid at byte 2: missing closing parenthesis'
printf 'AC\\w+\n\nb+\n' >patterns
echo 'Ich bin in ACME.' | "$tfm" translate -m "$demo" --keep-file patterns --keep 'zz' >out 2>err
check "translate --keep-file adds a pattern per line" grep -q ' ACME\.$' out
printf 'A+\n\n(\nb+\n)\n' >patterns
translate --keep-file patterns -i placed
check "translate --keep-file names the file and the line of an invalid pattern" one_sentence 2 '--keep-file patterns, line 3: the regular expression "(" is invalid'
translate --keep-file nowhere -i placed
check "translate --keep-file of a missing file is an error" one_sentence 1 '--keep-file'
translate --keep 'x*' -i placed
check "translate --keep rejects a pattern that matches the empty text" one_sentence 2 '--keep: the pattern "x*" matches the empty text'
printf '%s\n' "$german" >lines
translate -i lines
cp out with
translate --no-keep -i lines
check "translate without placeholders in the text gives the same with --no-keep" cmp -s out with

# ---- Sentences and tokens
# ---- Sentences and tokens
two="$german  $german"
echo "$two" >lines
translate --split --language de -i lines
echo "$english  $english" >want
check "translate --split translates sentence by sentence and keeps the blanks between them" both 0 cmp -s out want
check "translate --split prints no hint" [ ! -s err ]
printf 'Wo ist mein Au\302\255to?\nWo ist mein Au\342\200\213to?\nWo ist mein Au\342\201\240to\357\273\277?\n' >unseen
translate -i unseen
check "translate removes soft hyphens and zero-width spaces inside words" both 0 [ "$(grep -c "^Where's my car?$" out)" = 3 ]
translate -i lines
check "translate of a line with two sentences prints one hint" both 0 one_sentence 0 'line 1 of lines has 2 sentences'
translate --n-best 2 -i lines
check "translate --n-best of two sentences hints that --split excludes --n-best" both 0 one_sentence 0 'which goes without --n-best'
translate --split --n-best 2 -i lines
check "translate --split with --n-best is a usage error" one_sentence 2 '--split'
translate --alignments -i lines
check "translate --alignments without --json is a usage error" one_sentence 2 '--json'
printf '%s\n\n%s\n' "$german" "$two" >lines
translate --beam-size 4 --json --alignments --split --language de -i lines
check "translate --json has log probabilities and alignment rows that add up" both 0 python3 -c '
import json, sys
rows = [json.loads(line) for line in open("out", encoding="utf-8")]
assert [r["index"] for r in rows] == [0, 1, 2] and [r["rank"] for r in rows] == [0, 0, 0], rows
assert rows[0]["text"] == sys.argv[1] and rows[2]["text"] == sys.argv[1] + "  " + sys.argv[1], rows
assert rows[1]["text"] == "" and rows[1]["score"] is None and rows[1]["tokens"] == []
for r in rows[0], rows[2]:
    assert abs(sum(t["log_prob"] for t in r["tokens"]) - r["log_prob"]) < 1e-4
    assert len(r["alignment"]) == len(r["tokens"])
    assert all(len(a) == len(r["source"]) and abs(sum(a) - 1) < 1e-4 for a in r["alignment"])
assert abs(rows[2]["score"] - 2 * rows[0]["score"]) < 1e-3
assert "".join(t["piece"] for t in rows[0]["tokens"][:-1]).replace("\u2581", " ").strip() == sys.argv[1]' "$english"
translate --alignments --alignment-layer 99 --json --split -i lines
check "translate --alignment-layer beyond the last layer is an error" one_sentence 1 'layer of alignments is 99'
corpus=$root/../shared/data/tatoeba-deu-eng/demo
if [ -f "$corpus/test.de" ]; then
    # Real sentences outside the training set, four per line: the score equals that of one sentence per line.
    # (A training line of two sentences is translated better as a whole.)
    head -n 400 "$corpus/test.de" >single.de
    head -n 400 "$corpus/test.en" >single.en
    paste -d' ' - - - - <single.de >joined.de
    paste -d' ' - - - - <single.en >joined.en
    translate --beam-size 1 -i single.de
    paste -d' ' - - - - <out >joined.single
    translate --beam-size 1 --split --language de -i joined.de
    mv out joined.split
    for name in single split; do
        run eval --hyp joined.$name --ref joined.en
        sed -n 's/^BLEU = \([0-9.]*\) .*/\1/p' out >bleu.$name
    done
    check "translate --split of joined lines has a BLEU within 0.5 of single lines" [ "$(paste bleu.single bleu.split |
        awk '{ d = $1 - $2; print ($1 > 10 && d <= 0.5 && d >= -0.5) }')" = 1 ]
    echo "# BLEU of single lines $(cat bleu.single), of joined ones split again $(cat bleu.split)"
else
    skip "translate --split of joined lines has a BLEU within 0.5 of single lines" "there is no ../shared/data"
fi

# ---- Ids without a token in vocab.json
echo "$german" >line
mkdir nameless
for file in "$demo"/*; do [ -f "$file" ] && ln -s "$file" nameless; done
rm nameless/vocab.json
python3 -c '
import json, sys
ids = json.load(open(sys.argv[1]))
json.dump({piece: i for piece, i in ids.items() if i not in (300, 301)}, open("nameless/vocab.json", "w"))' "$demo/vocab.json"
"$tfm" translate -m nameless -i line >out 2>err
code=$?
check "translate warns how many ids have no token in the vocabulary" both 0 says err \
    "warning: nameless: 2 of the model's 5001 ids have no token in the vocabulary, the first is 300: "
"$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "translate does not warn where every id has a token in the vocabulary" [ "$(grep -c 'have no token' err)" = 0 ]

echo "1..$count"
