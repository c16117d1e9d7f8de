# tfm serve: /v1/rerank, /rerank and /v1/score with small random cross-encoders and an embedding model.
#     sh tests/serve/rerank.sh PROGRAM SOURCE_ROOT MAKE_DECODER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
golden=$root/tests/golden
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

# answer CODE: checks `out`, as `answer`, against the scores of tfm rerank in `ranked` (JSON lines).
answer() {
    [ "$code" = 200 ] && python3 -c 'import json, sys
answer = json.load(open("out"))
ranked = [json.loads(line) for line in open("ranked")]
near = lambda a, b: abs(a - b) < 1e-6
exec(sys.argv[1])' "$1"
}

printf 'the river is old\na cat sits in the garden\n\nbread and water\n' >documents
python3 -c 'import json; print(json.dumps(open("documents").read().split("\n")[:-1]))' >list
documents=$(cat list)
"$tfm" rerank -m "$golden/reranker" "the cat sits" -i documents --json >ranked 2>err
start -m cross="$golden/reranker" -m roberta="$golden/reranker_roberta" -m vectors="$golden/embedder" -m classes="$golden/classifier" -m language="$golden/reranker_qwen3"

json /v1/rerank "{\"model\":\"cross\",\"query\":\"the cat sits\",\"documents\":$documents}"
check "POST /v1/rerank answers indices and scores in the order of tfm rerank" answer '
assert [r["index"] for r in answer["results"]] == [r["index"] for r in ranked]
assert all(near(a["relevance_score"], b["score"]) for a, b in zip(answer["results"], ranked))
assert answer["object"] == "list" and answer["model"] == "cross" and "document" not in answer["results"][0]
assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 16'
cp out whole
json /rerank "{\"model\":\"cross\",\"query\":\"the cat sits\",\"documents\":$documents}"
check "POST /rerank answers as /v1/rerank" answer '
whole = json.load(open("whole"))
for a, b in zip(answer["results"], whole["results"], strict=True):
    assert a["index"] == b["index"] and near(a["relevance_score"], b["relevance_score"])
assert answer["usage"] == whole["usage"]'
json /v1/rerank "{\"model\":\"cross\",\"query\":\"the cat sits\",\"documents\":[{\"text\":\"the river is old\"},{\"text\":\"a cat sits in the garden\",\"n\":1}],\"top_n\":1,\"return_documents\":true}"
check "POST /v1/rerank takes objects with a text, and answers top_n documents" answer '
assert len(answer["results"]) == 1 and answer["results"][0]["document"] == {"text": (
    "the river is old", "a cat sits in the garden")[answer["results"][0]["index"]]}'
json /rerank "{\"query\":\"the cat sits\",\"texts\":$documents,\"return_text\":true,\"raw_scores\":true,\"model\":\"cross\",\"truncate\":true}"
check "POST /rerank with texts answers a list, as text-embeddings-inference, of raw scores" answer 'import math
assert [r["index"] for r in answer] == [r["index"] for r in ranked] and answer[0]["text"] == ranked[0]["text"]
assert all(near(1 / (1 + math.exp(-a["score"])), b["score"]) for a, b in zip(answer, ranked))'
json /v1/score "{\"model\":\"cross\",\"text_1\":\"the cat sits\",\"text_2\":$documents}"
check "POST /v1/score answers the score of each pair in order" answer '
want = {r["index"]: r["score"] for r in ranked}
assert [d["index"] for d in answer["data"]] == [0, 1, 2, 3] and answer["object"] == "list"
assert all(near(d["score"], want[d["index"]]) and d["object"] == "score" for d in answer["data"])'
json /v1/score '{"model":"cross","text_1":["bread","the cat sits"],"text_2":["a cat","the river is old"]}'
check "POST /v1/score pairs two lists" answer '
assert near(answer["data"][1]["score"], [r["score"] for r in ranked if r["index"] == 0][0]) and len(answer["data"]) == 2'
"$tfm" rerank -m "$golden/embedder" "the cat sits" -i documents --json >ranked 2>err
json /v1/rerank "{\"model\":\"vectors\",\"query\":\"the cat sits\",\"documents\":$documents}"
check "POST /v1/rerank with an embedding model answers cosines" answer '
assert [r["index"] for r in answer["results"]] == [r["index"] for r in ranked]
assert all(near(a["relevance_score"], b["score"]) for a, b in zip(answer["results"], ranked))'
"$tfm" rerank -m "$golden/reranker_roberta" "the cat sits" -i documents --json >ranked 2>err
json /v1/rerank "{\"model\":\"roberta\",\"query\":\"the cat sits\",\"documents\":$documents,\"top_n\":9}"
check "POST /v1/rerank takes a cross-encoder without modules.json, and a large top_n" answer '
assert all(near(a["relevance_score"], b["score"]) for a, b in zip(answer["results"], ranked, strict=True))'

"$tfm" rerank -m "$golden/reranker_qwen3" "the cat sits" -i documents --json >ranked 2>err
json /v1/rerank "{\"model\":\"language\",\"query\":\"the cat sits\",\"documents\":$documents}"
check "POST /v1/rerank with a language model answers the scores of tfm rerank" answer '
assert [r["index"] for r in answer["results"]] == [r["index"] for r in ranked]
assert all(near(a["relevance_score"], b["score"]) for a, b in zip(answer["results"], ranked))'
json /v1/completions '{"model":"language","prompt":"the cat","max_tokens":3,"temperature":0}'
cp out before
json /v1/rerank "{\"model\":\"language\",\"query\":\"the cat sits\",\"documents\":$documents}"
check "a language model reranks after a completion" [ "$code" = 200 ]
json /v1/completions '{"model":"language","prompt":"the cat","max_tokens":3,"temperature":0}'
check "a language model completes the same text after reranking" [ "$(sed 's/.*"text":"\([^"]*\)".*/\1/' out)" = "$(sed 's/.*"text":"\([^"]*\)".*/\1/' before)" ]

# ---- Clients at the same time, with different queries
for i in 1 2 3 4 5 6 7 8; do
    raw=$([ $((i % 2)) = 0 ] && echo true || echo false)
    curl -s -m 60 -o "one$i" "$at/v1/rerank" -H 'Content-Type: application/json' \
        -d "{\"model\":\"cross\",\"query\":\"the cat $i\",\"documents\":$documents,\"raw_scores\":$raw}" &
    clients="${clients:-} $!"
done
# shellcheck disable=SC2086 # words
wait $clients
check "requests with different queries and kinds of scores at the same time have the answers of single requests" python3 -c 'import json, subprocess, sys
for i in range(1, 9):
    lines = subprocess.run([sys.argv[1], "rerank", "-m", sys.argv[2], f"the cat {i}", "-i", "documents", "--json",
                            *["--raw-scores"] * (i % 2 == 0)],
                           capture_output=True, check=True, text=True).stdout.splitlines()
    want = [json.loads(line) for line in lines]
    got = json.load(open(f"one{i}"))["results"]
    assert all(a["index"] == b["index"] and abs(a["relevance_score"] - b["score"]) < 1e-6
               for a, b in zip(got, want, strict=True)), (got, want)' "$tfm" "$golden/reranker"

# ---- Wrong requests
for field in '"top_n":0' '"top_n":"two"' '"top_n":1.5' '"documents":"a"' '"documents":[]' '"documents":[1]' '"documents":[{"title":"a"}]' \
    '"query":7' '"query":["a"]' '"return_documents":"yes"' '"raw_scores":1' '"rank_fields":["title"]' '"max_tokens_per_doc":10' \
    '"activation":false' '"model":7'; do
    json /v1/rerank "{\"model\":\"cross\",\"query\":\"a\",\"documents\":[\"b\"],$field}"
    name=$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/')
    check "POST /v1/rerank rejects $field by its name" [ "$code" = 400 -a -n "$(grep "\"message\":\"[^\"]*$name.*\"param\":\"$name\"" out)" ]
done
json /v1/rerank '{"model":"cross","documents":["b"]}'
check "POST /v1/rerank without a query names it" [ "$code" = 400 -a -n "$(grep '"param":"query"' out)" ]
json /v1/score '{"model":"cross","text_1":["a","b"],"text_2":["a","b","c"]}'
check "POST /v1/score rejects lists of different lengths" [ "$code" = 400 -a -n "$(grep 'text_1 has 2 texts and text_2 3.*"param":"text_1"' out)" ]
json /v1/rerank '{"query":"a","documents":["b"]}'
check "POST /v1/rerank without a model is rejected if several rerank" [ "$code" = 400 -a -n "$(grep '"param":"model"' out)" ]
json /v1/rerank '{"model":"classes","query":"a","documents":["b"]}'
check "POST /v1/rerank rejects a classifier of several classes" [ "$code" = 400 -a -n "$(grep "The model 'classes' does not rerank" out)" ]
json /v1/embeddings '{"model":"cross","input":"a"}'
check "POST /v1/embeddings rejects a cross-encoder that has modules.json" [ "$code" = 400 -a -n "$(grep "does not compute embeddings" out)" ]
json /v1/rerank '{"model":"nobody","query":"a","documents":["b"]}'
check "POST /v1/rerank answers 404 for an unknown model" [ "$code" = 404 ]
stop
check "the server exits with 0 after reranking" [ "$ended" = 0 ]

start -m "$golden/reranker" --max-chars 100 --max-lines 3
json /rerank '{"query":"a","documents":["b"]}'
check "POST /rerank needs no model if one is served" [ "$code" = 200 ]
json /rerank '{"query":"a","documents":["b","c","d","e"]}'
check "POST /rerank rejects more documents than --max-lines" [ "$code" = 413 ]
json /rerank '{"query":"a query of more than thirty characters","documents":["b","c","d"]}'
check "POST /rerank counts the query once for each document in --max-chars" [ "$code" = 413 ]
stop
start -m late="$golden/colbert"
python3 - "$golden/colbert/golden.json" <<'END'
import json, sys
golden = json.load(open(sys.argv[1]))
for role in "query", "document":
    json.dump({"model": "late", "input": golden["texts"], "input_type": role}, open(role, "w"))
json.dump({"query": golden["query"], "documents": golden["texts"]}, open("ranking", "w"))
END
json /v1/rerank @ranking
check "POST /v1/rerank answers MaxSim of a ColBERT model" python3 -c 'import json, sys
want = json.load(open(sys.argv[1]))["scores"]
for row in json.load(open("out"))["results"]:
    assert abs(row["relevance_score"] - want[row["index"]]) < 1e-4, row' "$golden/colbert/golden.json"
for role in query document; do
    json /v1/embeddings @$role
    check "POST /v1/embeddings answers a vector for each token of a $role" python3 -c 'import json, sys
want = json.load(open(sys.argv[1]))[sys.argv[2]]
for row, other in zip(json.load(open("out"))["data"], want, strict=True):
    assert all(abs(x - y) < 1e-5 for a, b in zip(row["embedding"], other, strict=True) for x, y in zip(a, b, strict=True))' \
        "$golden/colbert/golden.json" $([ $role = query ] && echo queries || echo documents)
done
cp out lists
json /v1/embeddings "$(sed 's/^{/{"encoding_format":"base64",/' document)"
check "POST /v1/embeddings answers the vectors of tokens in base64" python3 -c 'import base64, json, struct
for row, other in zip(*(json.load(open(name))["data"] for name in ("out", "lists")), strict=True):
    for packed, numbers in zip(row["embedding"], other["embedding"], strict=True):
        assert all(abs(x - y) < 1e-6 for x, y in zip(struct.unpack("<6f", base64.b64decode(packed)), numbers, strict=True))'
for field in '"input_type":"passage"' '"dimensions":3'; do
    json /v1/embeddings "{\"model\":\"late\",\"input\":\"a\",$field}"
    name=$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/')
    check "POST /v1/embeddings rejects $field of a ColBERT model by its name" [ "$code" = 400 -a -n "$(grep "\"param\":\"$name\"" out)" ]
done
stop
start -m masked="$golden/masked" -m vectors="$golden/embedder"
json /embed_sparse '{"model":"masked","inputs":["The capital is [MASK].","a dog [MASK]"],"truncate":true}'
check "POST /embed_sparse answers the tokens of SPLADE's pooling with their weights" [ "$code" = 200 -a "$(python3 -c 'import json, sys
golden = json.load(open(sys.argv[1]))["sparse"]
for row, want in zip(json.load(open("out")), (golden[0], golden[2]), strict=True):
    assert [w["index"] for w in row] == [i for i, x in enumerate(want) if x > 0]
    assert all(abs(w["value"] - want[w["index"]]) < 1e-5 for w in row)
print("right")' "$golden/masked/golden.json")" = right ]
json /embed_sparse '{"model":"vectors","inputs":"a"}'
check "POST /embed_sparse rejects a model without a masked-LM head" [ "$code" = 400 -a -n "$(grep "model 'vectors' has no sparse embeddings" out)" ]
json /embed_sparse '{"inputs":"a"}'
check "POST /embed_sparse needs the model if several are served" [ "$code" = 400 -a -n "$(grep 'missing model' out)" ]
json /embed_sparse '{"model":"masked","inputs":[]}'
check "POST /embed_sparse rejects an empty list" [ "$code" = 400 -a -n "$(grep 'inputs' out)" ]
stop
echo "1..$count"
