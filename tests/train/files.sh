# tfm train: parallel text in several files, --src and --tgt or --tsv given more than once.
. "$(dirname "$0")/common.sh"

# As many lines in several files, one of which lacks its last end, and one of which is empty.
for side in de en; do
    head -n 90 text.$side | head -c -1 >one.$side
    : >two.$side
    tail -n +91 text.$side >three.$side
done
head -n 90 text.tsv | head -c -1 >one.tsv
tail -n +91 text.tsv >three.tsv
several="--src one.de --tgt one.en --src two.de --tgt two.en --src three.de --tgt three.en"
plan="--updates 12 --valid-every 4 --report-every 2 --buffer 60 --average 2 --warmup 2"

# shellcheck disable=SC2086 # words, here and below
begin whole $files $plan
check "one pair of files" both 0 says err '^228 pairs for training'
cp -r whole same
# shellcheck disable=SC2086
begin parts $several $plan
check "several: the same run, with the same pairs held out" both 0 alike whole parts
check "and the same vocabulary" cmp whole/source.spm parts/source.spm
check "the recipe has all of them" [ "$(python3 -c '
import json
recipe = json.load(open("parts/recipe.json"))
print(recipe["src"], recipe["tgt"], recipe["tsv"])')" = \
    "['../one.de', '../two.de', '../three.de'] ['../one.en', '../two.en', '../three.en'] None" ]
# shellcheck disable=SC2086
begin columns --tsv text.tsv $plan
cp -r columns pages
# shellcheck disable=SC2086
begin columns --tsv one.tsv --tsv three.tsv $plan
check "several TSV files: the same run" both 0 alike columns pages

# ---- Going on
# shellcheck disable=SC2086
begin part $several $plan --updates 5
resume part --updates 12
check "--resume: as if it had never stopped" both 0 cmp part/snapshots/00000012.safetensors whole/snapshots/00000012.safetensors
mkdir moved
mv three.de moved
resume part --updates 13
check "--resume: a file that is gone" one_sentence 1 'three.de: No such file or directory; if it lies elsewhere now, give all 3 files of --src again, in their order'
resume part --updates 13 --src moved/three.de
check "--resume: fewer files of one side" one_sentence 2 'the run has 3 files of --src, and 1 is given: give all of them, in their order'
resume part --updates 13 --src one.de --src two.de --src moved/three.de
check "--resume: files that have moved" both 0 grep -q '"../moved/three.de"' part/recipe.json
mv moved/three.de .
resume part --updates 14 --src one.de --src three.de --src two.de --tgt one.en --tgt three.en --tgt two.en
check "--resume: in another order" one_sentence 1 'the training files have changed since'
sed 's/eins/zwei/' three.de >other.de
resume part --updates 14 --src one.de --src two.de --src other.de
check "--resume: another text" one_sentence 1 'the training files have changed since'
# One file is noted as older programs did, by its name; a list of it would do, too.
python3 -c '
import json
recipe = json.load(open("same/recipe.json"))
assert recipe["src"] == "../text.de" and recipe["tgt"] == "../text.en", recipe
recipe["src"] = [recipe["src"]]
json.dump(recipe, open("same/recipe.json", "w"))'
resume same --updates 13
check "--resume: a recipe with one file" [ "$code" = 0 -a "$(value same src) $(value same tgt)" = '"../text.de" "../text.en"' ]

# ---- Unlike files
head -n 87 text.en >short.en
# shellcheck disable=SC2086
begin uneven --src one.de --tgt short.en --src three.de --tgt three.en $plan --buffer 1000 --updates 1 --vocab whole
check "a file is longer than its translation: the next ones are in step" both 0 says err '^226 pairs for training; left out: .* 3 without a partner'
check "and a warning names the two" says err '^warning: one.de has 90 lines and short.en 87:'
sed '7s/.*//' three.de >bad.de
# shellcheck disable=SC2086
begin strict --src one.de --tgt one.en --src bad.de --tgt three.en $plan --vocab whole --strict
check "--strict names the file and its line" one_last 1 'bad.de and three.en, line 7: the source is empty'
# shellcheck disable=SC2086
begin strict --src one.de --tgt short.en --src three.de --tgt three.en $plan --vocab whole --strict
check "--strict names what is longer" one_last 1 'one.de has more lines than short.en, which ends after line 87'
sed '10s/.*//' three.de >bad.de # line 100 of all
# shellcheck disable=SC2086
begin strict --src one.de --tgt one.en --src bad.de --tgt three.en $plan --vocab whole --strict
check "--strict: in pairs that are held out, too" one_sentence 1 'bad.de and three.en, line 10: the source is empty'

# ---- Refusals
begin wrong $files --src one.de
check "--src without its --tgt" one_sentence 2 '--src has 2 files and --tgt has 1: give a --tgt for each --src'
begin wrong $several --tsv text.tsv
check "two kinds of text" one_sentence 2 'not both'
begin wrong $files --src one.de --tgt nowhere.en
check "one of the files is missing" one_sentence 1 'cannot read nowhere.en: No such file'
name=$(printf 'one\377.de')
cp one.de "$name"
begin wrong --src "$name" --tgt one.en --src three.de --tgt three.en
check "a name that is no UTF-8, which the recipe cannot have" one_sentence 1 '--src cannot be noted in wrong/recipe.json'
check "and none makes a directory" [ ! -e wrong ]

echo "1..$count"
