# tfm rerank: order, formats, bad lines, models that do not rerank.
#     sh tests/apps/rerank.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
golden=$root/tests/golden
. "$root/tests/checks.sh"

python3 - "$golden/reranker/golden.json" <<'END'
import json, sys
golden = json.load(open(sys.argv[1]))
open("documents", "w").write("".join(text + "\n" for text in golden["documents"]))
open("query", "w").write(golden["queries"][0])
ranked = sorted(enumerate(golden["scores"][0]), key=lambda pair: -pair[1])
open("want", "w").write("".join("%d\t%s\n" % (i + 1, golden["documents"][i]) for i, _ in ranked))
open("scores", "w").write("".join("%d %.6f\n" % (i, score) for i, score in ranked))
END
query=$(cat query)

run rerank -m "$golden/reranker" "$query" -i documents
cut -f2- out >got
check "rerank prints line numbers and texts in the order of the cross-encoder's scores" both 0 same got want
cp out all
run rerank -m "$golden/reranker" "$query" --top-n 3 --batch-tokens 50 --stats <documents
head -3 all >top
check "rerank --top-n prints the first documents" both 0 same out top
check "rerank --stats counts texts, tokens and truncated texts" says err '^stats {"texts":8,"tokens":[0-9]*,"truncated":0,'
run rerank -m "$golden/reranker" "$query" -i documents --json -o ranked.json
check "rerank --json prints index, score and text of each document" both 0 python3 -c 'import json
want = [line.split() for line in open("scores")]
texts = open("documents").read().split("\n")
for line, (index, score) in zip(open("ranked.json"), want, strict=True):
    got = json.loads(line)
    assert list(got) == ["index", "score", "text"] and got["index"] == int(index), got
    assert abs(got["score"] - float(score)) < 1e-5 and got["text"] == texts[int(index)], got'
run rerank -m "$golden/reranker" "$query" -i documents --raw-scores
check "rerank --raw-scores prints logits in the same order" both 0 awk -F'\t' '
    NR == FNR { want[FNR] = $1; next } { p = 1 / (1 + exp(-$1)); if ((p - want[FNR]) ^ 2 > 1e-10) bad = 1 } END { exit bad }' all out
python3 - "$golden/colbert/golden.json" <<'END'
import json, sys
golden = json.load(open(sys.argv[1]))
open("texts", "w").write("".join(text + "\n" for text in golden["texts"]))
open("late", "w").write(golden["query"])
ranked = sorted(enumerate(golden["scores"]), key=lambda pair: -pair[1])
open("want", "w").write("".join("%d %.4f\n" % (i + 1, score) for i, score in ranked))
END
run rerank -m "$golden/colbert" "$(cat late)" -i texts
awk -F'\t' '{ printf "%d %.4f\n", $2, $1 }' out >got
check "rerank prints MaxSim of a ColBERT model" both 0 same got want
run rerank -m "$golden/embedder" "the cat sits" -i documents --top-n 2
check "rerank by an embedding model prints cosines" both 0 [ "$(grep -cE '^-?[01]\.[0-9]{6}	[1-8]	' out)" = 2 ]

run rerank -m "$golden/reranker_qwen3" "$query" -i documents --json
check "rerank by a language model prints the order of the cross-encoder's scores" both 0 python3 -c 'import json, sys
golden = json.load(open(sys.argv[1]))
want = golden["scores"][0]
got = [json.loads(line) for line in open("out")]
assert [row["index"] for row in got] == sorted(range(len(want)), key=lambda i: -want[i])
assert all(abs(row["score"] - want[row["index"]]) < 1e-5 for row in got)' "$golden/reranker_qwen3/golden.json"
cp out plain
run rerank -m "$golden/reranker_qwen3" "$query" -i documents --json --instruction "bad light"
check "rerank --instruction changes the scores of a language model" both 0 eval "! cmp -s out plain"
run rerank -m "$golden/reranker" "$query" -i documents --instruction "bad light"
check "rerank --instruction refuses a cross-encoder" one_sentence 1 'instruction is for language models'

# ---- Bad lines and models
printf 'a cat\n\377\na dog\0and more\na dog\n' >bad
run rerank -m "$golden/reranker" "a cat" -i bad
check "rerank leaves out a line with invalid UTF-8 or a NUL and exits with 1" \
    both 1 [ "$(cut -f2 out | sort | tr '\n' ' ')" = "1 4 " ]
check "rerank names a line with invalid UTF-8" says err 'bad, line 2: '
check "rerank names a line with a NUL" says err 'bad, line 3: there is a NUL in it'
run rerank -m "$golden/reranker" "$(printf 'a \377')" -i documents
check "rerank names a query with invalid UTF-8" one_sentence 1 'QUERY: '
: >empty
run rerank -m "$golden/reranker" "a cat" -i empty
check "rerank of no documents prints nothing" both 0 [ ! -s out ]
run rerank -m "$golden/classifier" "a cat" -i documents
check "rerank refuses a classifier of several classes" one_sentence 1 'classifier does not rerank'
run rerank -m "$root/apps/demo" "a cat" -i documents
check "rerank refuses a translation model" one_sentence 1 'demo does not rerank'
run rerank -m "$golden/reranker" -i documents
check "rerank without a query is a usage error" one_sentence 2 'QUERY'
run rerank "a cat" -i documents
check "rerank without a model is a usage error" one_sentence 2 '-m MODEL'
run info "$golden/reranker"
check "info lists rerank for a cross-encoder" both 0 says out '^commands  *rerank, embed --classify$'
cp documents in
in_terminal 80 rerank -m "$golden/reranker" "$query"
check "rerank leaves no progress line on a terminal" [ "$code" = 0 -a "$(grep -c '^0\.[0-9]*	' screen)" = 8 ]
echo "1..$count"
