# tfm embed: formats, tasks, bad lines, incompatible options.
#     sh tests/apps/embed.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
golden=$root/tests/golden
. "$root/tests/checks.sh"

embed() {
    run embed -m "$golden/embedder" "$@"
}

printf 'the cat sits in the garden\na dog\n\n' >lines
printf 'the river\na dog\nbread and water\n' >others

# ---- Embeddings
embed -i lines
cp out json
check "embed of an encoder prints no warning about ids without a token" eval "! grep -v 'building kernels' err"
check "embed prints one JSON list for each line, also an empty one" [ "$code" = 0 -a "$(grep -c '^\[.*\]$' out)" = 3 ]
embed --format text <lines
tr -d '[]' <json | tr ',' ' ' >want
check "embed --format text prints the numbers of JSON" same out want
embed -i lines --format npy -o vectors.npy
python3 - vectors.npy json <<'END' >npy
import ast, json, struct, sys
data = open(sys.argv[1], "rb").read()
head = ast.literal_eval(data[10:10 + struct.unpack("<H", data[8:10])[0]].decode())
want = [json.loads(line) for line in open(sys.argv[2])]
rows, width = head["shape"]
got = struct.unpack("<%df" % (rows * width), data[128:])
near = all(abs(g - w) < 1e-6 for g, w in zip(got, sum(want, []), strict=True))
print(data[:8] == b"\x93NUMPY\x01\x00" and head["descr"] == "<f4" and not head["fortran_order"] and rows == 3 and near)
END
check "embed --format npy writes NumPy's header and the numbers of JSON" grep -qx True npy
embed -i lines --no-normalize --batch-tokens 7 --stats
check "embed --stats counts lines, tokens and truncated lines" both 0 says err '^stats {"lines":3,"tokens":[0-9]*,"truncated":0,'
printf 'a cat\n%s\n' "$(yes dog | head -50 | tr '\n' ' ')" >long
embed -i long --stats
check "embed truncates a long line and counts it" both 0 says err '"truncated":1,'
embed -i lines --prompt document
check "embed names a prompt that the model does not have" one_sentence 1 "has no prompt 'document'; it has query"
embed -i lines --dimensions 4
check "embed --dimensions prints the first numbers, scaled to unit length" both 0 python3 -c 'import json, math
for row, line in zip(map(json.loads, open("json")), open("out"), strict=True):
    got, length = json.loads(line), math.sqrt(sum(x * x for x in row[:4]))
    assert len(got) == 4 and all(abs(a / length - b) < 1e-6 for a, b in zip(row, got)), (row, got)'
embed -i lines --dimensions 11
check "embed --dimensions refuses more than the width" both 1 says err 'dimensions is 11, and the embeddings of .* have 10: '
embed -i lines --dimensions 4 --classify
check "embed --dimensions with --classify is a usage error" one_sentence 2 '--dimensions'
embed -i lines --dimensions 4 --similar others --top-k 1
check "embed --dimensions shortens the vectors of --similar" both 0 says out '^1\.000000	2	a dog$'
printf 'a dog\n\377\na cat\n' >bad
embed -i bad
check "embed prints null for a line with invalid UTF-8 and exits with 1" [ "$code" = 1 -a "$(sed -n 2p out)" = null -a "$(wc -l <out)" = 3 ]
check "embed names a line with invalid UTF-8 and prints nothing else" one_sentence 1 'bad, line 2: '

# ---- Neighbors
embed -i lines --similar others --top-k 2
check "embed --similar prints score, line number and text" says out '^1\.000000	2	a dog$'
check "embed --similar prints a group for each line" [ "$(grep -c . out)" = 6 -a "$(grep -vc . out)" = 2 ]
check "embed --similar prints the nearest line first" awk -F'\t' '
    NF == 0 { last = 2; next } { if (last != "" && $1 > last) bad = 1; last = $1 } END { exit bad }' out
embed -i lines --similar others --format json
check "embed --similar --json prints one object a line" [ "$(grep -c '^{"index":[0-2],"similar":\[{"score":' out)" = 3 ]

# ---- Heads
run embed -m "$golden/classifier" --classify -i lines
check "embed --classify prints a label and a probability for each pair" [ "$code" = 0 -a "$(grep -cE '^(contradiction|entailment|neutral)	0\.[0-9]{6}$' out)" = 3 ]
printf 'the cat\ta dog\nno tab\n' >pairs
run embed -m "$golden/classifier" --classify --pairs -i pairs
check "embed --classify names a pair without a tab" one_sentence 1 'pairs, line 2: there is no tab'
check "embed --classify prints an empty line for a pair without a tab" [ "$(sed -n 2p out)" = "" -a "$(wc -l <out)" = 2 ]
echo "the [MASK] sits in [MASK]." >masks
run embed -m "$golden/masked" --fill-mask --top-k 2 -i masks
check "embed --fill-mask prints one line for each mask" [ "$code" = 0 -a "$(awk -F'\t' 'NF == 4' out | wc -l)" = 2 ]
run embed -m "$golden/masked" --fill-mask -i lines
check "embed --fill-mask names a line without a mask" both 1 says err 'line 1: there is no \[MASK\]'
echo "[MASK] cat" >masks
run embed -m "$golden/masked" --fill-mask --top-k 64 --format json -i masks
check "embed --fill-mask prints special tokens by their names" \
    both 0 [ "$(grep -c '"text":""' out)" = 0 -a "$(grep -o '"text":"\[[A-Z]*\]"' out | wc -l)" -gt 1 ]
# The tokenizer has one more token than the embedding table, as for images in Gemma 3.
mkdir more
cp "$golden/masked"/* more
sed -i 's/"added_tokens": *\[/&{"id": 89, "content": "<image>", "special": true},/' more/tokenizer.json
echo 'the [MASK] sits.' >masks
run embed -m more --fill-mask -i masks
check "embed accepts texts without the token that has no embedding" both 0 [ -s out ]
echo 'the [MASK] <image>' >masks
run embed -m more --fill-mask -i masks
check "embed names a token that has no embedding" both 1 says err 'line 1: the text has the token "<image>", whose id is 89, and the model.s embeddings have 89 rows'
run info more
check "info of a model with a token that has no embedding lists its commands" both 0 says out '^commands  *embed, embed --fill-mask$'
printf 'The capital is [MASK].\n\377\na dog [MASK]\n' >sparse
run embed -m "$golden/masked" --sparse --format json -i sparse
check "embed --sparse prints the tokens of SPLADE's pooling with their weights, and none of a bad line" both 1 python3 -c 'import json, sys
golden = json.load(open(sys.argv[1]))["sparse"]
rows = [json.loads(line)["weights"] for line in open("out")]
for row, want in zip((rows[0], rows[2]), (golden[0], golden[2]), strict=True):
    assert {w["id"] for w in row} == {i for i, x in enumerate(want) if x > 0}
    assert all(abs(w["weight"] - want[w["id"]]) < 1e-5 for w in row)
    assert [w["weight"] for w in row] == sorted((w["weight"] for w in row), reverse=True)
assert len(rows) == 3 and rows[1] == []' "$golden/masked/golden.json"
run embed -m "$golden/masked" --sparse --top-k 2 -i lines
check "embed --sparse --top-k prints tokens and weights between tabs" both 0 [ "$(awk -F'\t' 'NF == 4' out | wc -l)" = 3 ]
run embed -m "$golden/masked" --classify -i lines
check "embed --classify names a model without a classification head" one_sentence 1 'has no classification head'

python3 -c 'import json, sys
open("texts", "w").write("\n".join(json.load(open(sys.argv[1]))["texts"]) + "\n")' "$golden/colbert/golden.json"
for role in documents queries; do
    run embed -m "$golden/colbert" $([ $role = documents ] || echo --query) -i texts
    check "embed prints a vector for each token of $role of a ColBERT model" both 0 python3 -c 'import json, sys
want = json.load(open(sys.argv[1]))[sys.argv[2]]
for row, other in zip(map(json.loads, open("out")), want, strict=True):
    assert all(abs(x - y) < 5e-6 for a, b in zip(row, other, strict=True) for x, y in zip(a, b, strict=True))' "$golden/colbert/golden.json" $role
done
printf 'the cat\n\377\n' >some
run embed -m "$golden/colbert" --format text -i some
check "embed --format text prints a line for each token, and an empty one" both 1 [ "$(awk '{ print NF }' out | tr '\n' ' ')" = "6 6 6 6 6 0 0 " ]
run embed -m "$golden/masked" --pooling none -i some
check "embed --pooling none prints a vector for each token, and null for a bad line" both 1 python3 -c 'import json
rows = list(map(json.loads, open("out")))
assert [len(x) for x in rows[0]] == 4 * [16] and rows[1] is None, rows'
run embed -m "$golden/colbert" --similar texts -i texts
check "embed --similar refuses a vector for each token" one_sentence 1 'use tfm rerank'
run embed -m "$golden/embedder" --query -i texts
check "embed --query refuses a model with pooling" one_sentence 1 'is for models of late interaction'

printf 'the cat\ta dog\0and more\nthe cat\ta dog\n' >pairs
run embed -m "$golden/classifier" --classify --pairs -i pairs
check "embed --classify names a second text with a NUL" both 1 says err 'pairs, line 1: the second text has a NUL'
check "embed --classify prints an empty line for a text with a NUL and continues" [ -z "$(sed -n 1p out)" -a -n "$(sed -n 2p out)" ]

# ---- On a terminal
cp lines in
in_terminal 80 embed -m "$golden/embedder"
check "embed leaves no progress line on a terminal" [ "$code" = 0 -a "$(grep -c '^\[.*\]$' screen)" = 3 ]
in_terminal 80 embed -m "$golden/embedder" --similar others --top-k 1
check "embed --similar leaves no progress line on a terminal" [ "$code" = 0 -a "$(grep -c '^[01]\.[0-9]*	' screen)" = 3 ]
in_terminal 80 embed -m "$golden/classifier" --classify --top-k 1
check "embed --classify leaves no progress line on a terminal" [ "$code" = 0 -a "$(grep -c '^[a-z]*	0\.[0-9]*$' screen)" = 3 ]

# ---- Kinds of directories
run info "$golden/embedder"
check "info prints size and pooling of a sentence-transformers model" both 0 says out '^embeddings  *10 wide, pooling cls+max'
check "info prints the maximum length and the prompts of a sentence-transformers model" says out '^texts  *up to 16 tokens, lowercased; 1 prompt'
check "info lists embed and rerank for a sentence-transformers model" says out '^commands  *embed, rerank$'
run info "$golden/classifier"
check "info lists embed --classify for a model with a classification head" both 0 says out '^commands  *embed, embed --classify$'
run info "$golden/masked"
check "info lists embed --fill-mask for a masked language model" both 0 says out '^commands  *embed, embed --fill-mask$'
run generate -m "$golden/masked" a
check "generate refuses an encoder-only model" one_sentence 1 'is an encoder-only model (bert): use tfm embed'
run info "$golden/embedder"
check "info prints only the padding id of an encoder-only model" says out '^special ids  *pad [0-9]*$'
run info --json "$golden/embedder"
check "info --json has the embedder's fields" both 0 python3 -c 'import json; j = json.load(open("out")); e = j["embedder"]
assert j["runs"] and j["family"] == "bert" and (e["width"], e["max_tokens"], e["dense"], e["prompts"]) == (10, 16, 1, 1), j'
cp -r "$golden/embedder" asks
sed 's/models.Dense/models.CNN/' "$golden/embedder/modules.json" >asks/modules.json
run info asks
check "info names an unsupported sentence-transformers module" one_sentence 1 'asks for the module "CNN"'
run info --json asks
check "info --json says that an unsupported module does not run" both 1 python3 -c 'import json; assert json.load(open("out"))["runs"] is False'

# ---- Incompatible options
embed -i lines --format npy
check "embed --format npy without -o is a usage error" one_sentence 2 '-o FILE'
if [ -w /dev/full ]; then
    embed -i lines --format npy -o /dev/full
    check "embed --format npy reports a full disk" one_sentence 1 'cannot write /dev/full: No space left'
    embed -i lines -o /dev/full
    check "embed --format json reports a full disk" one_sentence 1 'cannot write /dev/full: No space left'
fi
embed -i lines --classify --fill-mask
check "embed with two tasks is a usage error" one_sentence 2 'do not go together'
embed -i lines --pairs
check "embed --pairs without --classify is a usage error" one_sentence 2 '--classify'
run embed -m "$root/apps/demo" -i lines
check "embed refuses a translation model" one_sentence 1 'is an encoder-decoder: translate with it, or use an encoder-only or decoder-only model'
echo "1..$count"
