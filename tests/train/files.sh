# tfm train: parallel text in several files, --src and --tgt or --tsv given more than once.
. "$(dirname "$0")/common.sh"

# The same lines in several files, one without a final line end, and one empty.
for side in de en; do
    head -n 90 text.$side | head -c -1 >one.$side
    : >two.$side
    tail -n +91 text.$side >three.$side
done
head -n 90 text.tsv | head -c -1 >one.tsv
tail -n +91 text.tsv >three.tsv
several="--src one.de --tgt one.en --src two.de --tgt two.en --src three.de --tgt three.en"
plan="--max-steps 12 --eval-steps 4 --logging-steps 2 --buffer-size 60 --average 2 --warmup-steps 2"

# shellcheck disable=SC2086 # words, here and below
begin whole $files $plan
check "train on one pair of files" both 0 says err '^228 pairs for training'
cp -r whole same
# shellcheck disable=SC2086
begin parts $several $plan
check "train on several pairs of files gives the same run and validation pairs" both 0 alike whole parts
check "train on several pairs of files gives the same vocabulary" cmp whole/source.spm parts/source.spm
check "train on several pairs of files has all of them in its recipe" [ "$(python3 -c '
import json
recipe = json.load(open("parts/recipe.json"))
print(recipe["src"], recipe["tgt"], recipe["tsv"])')" = \
    "['../one.de', '../two.de', '../three.de'] ['../one.en', '../two.en', '../three.en'] None" ]
# shellcheck disable=SC2086
begin columns --tsv text.tsv $plan
cp -r columns pages
# shellcheck disable=SC2086
begin columns --tsv one.tsv --tsv three.tsv $plan
check "train on several TSV files gives the same run" both 0 alike columns pages

# ---- Resuming
# shellcheck disable=SC2086
begin part $several $plan --max-steps 5
resume part --max-steps 12
check "train --resume with several files gives the same parameters" both 0 cmp part/snapshots/00000012.safetensors whole/snapshots/00000012.safetensors
mkdir moved
mv three.de moved
resume part --max-steps 13
check "train --resume names a file that does not exist" one_sentence 1 'three.de: No such file or directory; if it was moved, give all 3 files of --src again, in their order'
resume part --max-steps 13 --src moved/three.de
check "train --resume rejects fewer files for one side" one_sentence 2 'the run has 3 files of --src, and 1 is given: give all of them, in their order'
resume part --max-steps 13 --src one.de --src two.de --src moved/three.de
check "train --resume accepts files at other paths" both 0 grep -q '"../moved/three.de"' part/recipe.json
mv moved/three.de .
resume part --max-steps 14 --src one.de --src three.de --src two.de --tgt one.en --tgt three.en --tgt two.en
check "train --resume rejects files in another order" one_sentence 1 'the training files have changed since'
sed 's/eins/zwei/' three.de >other.de
resume part --max-steps 14 --src one.de --src two.de --src other.de
check "train --resume rejects changed text" one_sentence 1 'the training files have changed since'
# A single file is stored by its name, as in older versions; a list is valid, too.
python3 -c '
import json
recipe = json.load(open("same/recipe.json"))
assert recipe["src"] == "../text.de" and recipe["tgt"] == "../text.en", recipe
recipe["src"] = [recipe["src"]]
json.dump(recipe, open("same/recipe.json", "w"))'
resume same --max-steps 13
check "train --resume accepts a recipe with one file" [ "$code" = 0 -a "$(value same src) $(value same tgt)" = '"../text.de" "../text.en"' ]

# ---- Files with different numbers of lines
head -n 87 text.en >short.en
# shellcheck disable=SC2086
begin uneven --src one.de --tgt short.en --src three.de --tgt three.en $plan --buffer-size 1000 --max-steps 1 --vocab whole
check "train stays aligned after a file longer than its translation" both 0 says err '^226 pairs for training; left out: .* 3 without a partner'
check "train warns of a file longer than its translation" says err '^warning: one.de has 90 lines and short.en 87:'
sed '7s/.*//' three.de >bad.de
# shellcheck disable=SC2086
begin strict --src one.de --tgt one.en --src bad.de --tgt three.en $plan --vocab whole --strict
check "train --strict names the file and its line" one_last 1 'bad.de and three.en, line 7: the source is empty'
# shellcheck disable=SC2086
begin strict --src one.de --tgt short.en --src three.de --tgt three.en $plan --vocab whole --strict
check "train --strict names the file that is longer" one_last 1 'one.de has more lines than short.en, which ends after line 87'
sed '10s/.*//' three.de >bad.de # line 100 of all
# shellcheck disable=SC2086
begin strict --src one.de --tgt one.en --src bad.de --tgt three.en $plan --vocab whole --strict
check "train --strict names lines of held-out pairs" one_sentence 1 'bad.de and three.en, line 10: the source is empty'

# ---- Errors
begin wrong $files --src one.de
check "train with two --src and one --tgt is a usage error" one_sentence 2 '--src has 2 files and --tgt has 1: give a --tgt for each --src'
begin wrong $several --tsv text.tsv
check "train with --text and --src is a usage error" one_sentence 2 'not both'
begin wrong $files --src one.de --tgt nowhere.en
check "train names one of several files that does not exist" one_sentence 1 'cannot read --tgt nowhere.en: No such file'
name=$(printf 'one\377.de')
cp one.de "$name"
begin wrong --src "$name" --tgt one.en --src three.de --tgt three.en
check "train rejects a file name with invalid UTF-8" one_sentence 1 '--src cannot be written to wrong/recipe.json'
check "train that is rejected makes no directory" [ ! -e wrong ]

echo "1..$count"
