# Prepares the demo model's training text from all.de and all.en, aligned line by line, without demo/valid.* and
# demo/test.*: a pair of all.* is removed if a side is also a line of them.
#     sh apps/demo/prepare.sh CORPUS_DIR OUT_DIR
# Writes OUT_DIR/train.tsv, valid.de and valid.en.
set -eu

[ $# = 2 ] || {
    echo "usage: sh $0 CORPUS_DIR OUT_DIR" >&2
    exit 2
}
corpus=$1 out=$2
export LC_ALL=C # bytes, not letters
lines=$(wc -l <"$corpus/all.de")
[ "$lines" = "$(wc -l <"$corpus/all.en")" ] || {
    echo "$corpus/all.de and all.en are not of equal length" >&2
    exit 1
}
mkdir -p "$out"
cp "$corpus/demo/valid.de" "$corpus/demo/valid.en" "$out/"
for side in de en; do
    cat "$corpus/demo/valid.$side" "$corpus/demo/test.$side" >"$out/held.$side"
done
paste "$corpus/all.de" "$corpus/all.en" |
    awk -F '\t' 'FILENAME != "-" { held[$0]; next } !($1 in held) && !($2 in held)' \
        "$out/held.de" "$out/held.en" - >"$out/train.tsv"
rm "$out/held.de" "$out/held.en"
echo "$(wc -l <"$out/train.tsv") of $lines pairs are left for training"
