# Shared by the scripts that test `tfm train`: texts, a small model, runs, and their output files.
#     sh tests/train/CASE.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# Each begins with
#     . "$(dirname "$0")/common.sh"
# runs in a separate folder, prints TAP, and ends with echo "1..$count".
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
layer=$(realpath "$3")
. "$root/tests/checks.sh"
unoptimized

# ---- Runs
# text COUNT SEED: pairs of lines, `source TAB target`: a few number words, and the same in English, reversed.
text() {
    awk -v count="$1" -v state="$2" '
        function draw(below) { state = state * 16807 % 2147483647; return int(state / 7) % below }
        BEGIN {
            words = split("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf", german, " ")
            split("zero one two three four five six seven eight nine ten eleven twelve", english, " ")
            for (i = 0; i < count; i++) {
                source = target = ""
                for (left = 1 + draw(5); left >= 0; left--) {
                    word = 1 + draw(words)
                    source = source (source ? " " : "") german[word]
                    target = english[word] (target ? " " : "") target
                }
                print source "\t" target
            }
        }'
}
text 240 1 >text.tsv
cut -f1 text.tsv >text.de
cut -f2 text.tsv >text.en
text 10 2 >valid.tsv
cut -f1 valid.tsv >valid.de
cut -f2 valid.tsv >valid.en
small="--width 32 --heads 2 --ffn-dim 64 --encoder-layers 1 --decoder-layers 1 --batch-tokens 128"
files="--src text.de --tgt text.en"

# begin DIR ARGUMENT...: a new run of the small model; resume DIR ARGUMENT...: a resumed one. Like `run`, both retry
# once after a failure of the leak checker.
begin() {
    dir=$1
    shift
    rm -rf "$dir"
    # shellcheck disable=SC2086 # words
    attempt train -o "$dir" $small "$@"
    if unjudged; then
        rm -rf "$dir"
        # shellcheck disable=SC2086
        attempt train -o "$dir" $small "$@"
    fi
}
resume() {
    run train --resume "$@"
}
# launch ARGUMENT...: in the background, to receive signals; sets $child.
launch() {
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 env --default-signal=INT,HUP "$tfm" train "$@" >out 2>err &
    child=$!
}
# Waits until the log of a run has this update or a later one, at most a minute.
wait_for_update() { # DIR UPDATE
    tries=0
    until [ "$(sed -n 's/^{"type":"train","update":\([0-9]*\),.*/\1/p' "$1/train.jsonl" 2>/dev/null | tail -n 1)" -ge "$2" ] \
        2>/dev/null || [ $tries -ge 3000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
}

# one_last CODE TEXT: it failed with this code, and one error message after its reports.
one_last() {
    [ "$code" = "$1" ] && [ "$(grep -c '^tfm: ' err)" = 1 ] && tail -n 1 err | grep -q "^tfm: $2"
}

# ---- Output files
number='-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?'
string='"([^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
pair="$string: ?($string|$number|true|false|null)"
# Every line is a flat JSON object.
json_lines() {
    [ -s "$1" ] && ! grep -qvE "^\{ ?$pair(, ?$pair)* ?\}\$" "$1"
}
json_file() {
    tr -s ' \n' '  ' <"$1" | sed 's/ *$//' >joined
    echo >>joined
    json_lines joined
}
# value DIR NAME: of the recipe
value() {
    sed -n "s/^ \"$2\": \(.*[^,]\),*\$/\1/p" "$1/recipe.json"
}
# reports TYPE DIR: how many
reports() {
    grep -c "^{\"type\":\"$1\"," "$2/train.jsonl"
}
# log DIR: the reports that must not depend on interruptions
log() {
    sed '/"type":"start"/d; /"type":"data"/d; s/,"[a-z_]*second[a-z]*":[^,}]*//g; s/,"tokens_per_s":[^,}]*//' "$1/train.jsonl"
}
# alike DIR DIR: same model, same parameters at the last validations, same reports
alike() {
    cmp "$1/model.safetensors" "$2/model.safetensors" >differs 2>&1 || return 1
    [ "$(ls "$1/snapshots")" = "$(ls "$2/snapshots")" ] || return 1
    for snapshot in "$1"/snapshots/*; do
        cmp "$snapshot" "$2/snapshots/${snapshot##*/}" >>differs 2>&1 || return 1
    done
    log "$1" >left
    log "$2" >right
    cmp left right >>differs 2>&1
}
# No temporary and no unknown file is left.
tidy() {
    [ "$(ls "$1" | grep -vxE 'recipe.json|(source|target).spm|(target_)?vocab.json|tokenizer.(json|model)|(tokenizer_|generation_)?config.json|model.safetensors|checkpoint.safetensors(-[0-9]*-[0-9]*-of-[0-9]*)?|snapshots|train.jsonl|curves.svg')" = "" ]
}

# The options in the manual page.
options() {
    sed -n '/^\.SS train/,/^\.SS translate/s/^\.B[IR]* .*\\-\\-\([a-z0-9\\-]*\).*/--\1/p' "$root/apps/tfm.1" | tr -d '\\'
}
# Whether `tfm attention` renders pictures: not without cairo or fonts. Leaves the reason in `err`.
renders() {
    "$tfm" attention -m "$root/apps/demo" "Danke." -o attention.svg >out 2>err
}
