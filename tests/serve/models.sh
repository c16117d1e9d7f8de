# tfm serve: the web page, status, embeddings, metrics, and model eviction.
#     sh tests/serve/models.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

# ---- Probes
# ready STATUS: waits until /ready answers this, for at most a minute
ready() {
    for _ in $(seq 600); do
        ask "$at/ready"
        [ "$(cat out)" != "{\"status\":\"$1\"}" ] || return 0
        sleep 0.1
    done
    return 1
}
start -m "$demo" --beam-size 8 --workers 1 --max-queue 4 --max-client 4 --timeout 600
ask "$at/ready"
check "GET /ready answers before models are loaded, which their first requests do" [ "$code" = 200 -a "$(cat out)" = '{"status":"ready"}' ]
for _ in $(seq 24); do
    tr '\n' ' ' <"$demo/test.de"
done >long.de # one line of the queue
curl -s "$at/translate" --data-urlencode "q@long.de" -d source=de -d target=en >drained &
long=$!
sleep 0.5 # it runs
curl -s "$at/translate" -d 'q=Ja. Nein. Danke. Wo?' -d source=de -d target=en -d alternatives=1 >waited & # of another batch
short=$!
check "GET /ready answers 503 while the queue is full" ready 'the queue is full'
check "a full queue is a status of GET /ready" [ "$code" = 503 ]
check "GET /ready answers 200 when the queue has room again" ready ready
ask "$at/health"
check "GET /health answers ok" [ "$code" = 200 -a "$(cat out)" = '{"status":"ok"}' ]
stop
wait $long $short
start -m "$demo" --preload --timeout 600
check "GET /ready answers 200 after --preload" ready ready
ask "$at/status"
check "--preload opens models before the first request" says out '"name":"de-en","task":"translate","loaded":true'

# ---- Headers
start -m "$demo" -m "fr-en=$demo" -m "embedder=$root/tests/golden/embedder" --memory-limit 250 --timeout 600
form -d "q=$line" # loads de-en first
ask "$at/health"
for header in 'cache-control: no-store' 'x-content-type-options: nosniff' 'x-frame-options: DENY' \
    "content-security-policy: default-src 'none'; frame-ancestors 'none'" 'referrer-policy: no-referrer'; do
    check "answers have the header ${header%%:*}" grep -qi "^$header" head
done

# ---- Pages and status
ask "$at/openapi.json"
check "GET /openapi.json is JSON with the paths" python3 -c 'import json
assert "/v1/chat/completions" in json.load(open("out"))["paths"]'
ask "$at/"
check "GET / answers the web page" [ "$code" = 200 -a -n "$(grep -i "^content-type: text/html" head)" ]
nonce=$(sed -n 's/.*script-src .nonce-\([0-9a-f]*\).*/\1/p' head)
check "the web page's script has the nonce of its content security policy" grep -q "<script nonce=\"$nonce\"" out
ask "$at/status"
check "GET /status has name, task and state of each model" says out '"name":"de-en","task":"translate","loaded":true,"chat":false}'
check "the server prints one line with its address and models at start" [ "$(grep '^tfm: ' log)" = \
    "tfm: serving de-en, fr-en, embedder, listening on http://127.0.0.1:$port/" ]
ask "$at/"
check "the web page loads nothing from other hosts" [ "$(grep -cE '(src|href)="(https?:)?//' out)" = 0 ]

# ---- Embeddings
ask "$at/v1/models"
check "GET /v1/models lists the models" says out '"id":"embedder"'
"$tfm" embed -m "$root/tests/golden/embedder" >want.json <<END
the cat sits in the garden
END
json /v1/embeddings '{"model":"embedder","input":"the cat sits in the garden"}'
check "POST /v1/embeddings answers the vector of tfm embed" [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
printf 'the cat\n' | "$tfm" embed -m "$root/tests/golden/embedder" --prompt query >want.json
json /v1/embeddings '{"model":"embedder","input":"the cat","prompt_name":"query"}'
check "POST /v1/embeddings with prompt_name equals tfm embed --prompt" [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
prompted=$(sed 's/.*"usage"/"usage"/' out)
json /v1/embeddings '{"model":"embedder","input":"query: a the cat"}'
check "POST /v1/embeddings with prompt_name counts the prompt's tokens" [ "$(sed 's/.*"usage"/"usage"/' out)" = "$prompted" ]
json /v1/embeddings "{\"model\":\"embedder\",\"input\":\"$(printf 'cat %.0s' $(seq 100))\"}"
check "POST /v1/embeddings counts only the tokens left after truncation" says out '"usage":{"prompt_tokens":16,'
json /v1/embeddings '{"model":"embedder","input":"the cat","prompt_name":"nobody"}'
check "POST /v1/embeddings rejects a prompt_name that the model does not have" [ "$code" = 400 -a -n "$(grep "has no prompt 'nobody'" out)" ]
json /v1/embeddings '{"model":"nobody","input":"a"}'
check "POST /v1/embeddings answers 404 in OpenAI's error format for an unknown model" [ "$code" = 404 -a -n "$(grep '^{"error":{"message":.*"type":"invalid_request_error"' out)" ]
json /v1/chat/completions '{"model":"de-en","messages":[{"role":"user","content":"a"}]}'
check "POST /v1/chat/completions rejects a translation model" [ "$code" = 400 ]

# ---- Memory limit and metrics
ask "$at/translate" -d "q=$line" -d source=fr -d target=en
check "a request for a model that is not loaded succeeds under --memory-limit" [ "$code" = 200 ]
ask "$at/metrics"
check "GET /metrics has answers, loaded models and latency buckets" [ -n "$(grep '^tfm_answers_total{class="2xx"} [1-9]' out)" -a \
    -n "$(grep '^tfm_model_loaded{model="fr-en"} 1' out)" -a -n "$(grep '^tfm_request_seconds_bucket{le="+Inf"}' out)" ]
check "GET /metrics shows that the least recently used model was dropped" [ -n "$(grep '^tfm_model_drops_total [1-9]' out)" -a \
    -n "$(grep '^tfm_model_loaded{model="de-en"} 0' out)" ]
stop

# ---- Idle models
start -m de-en="$demo" --idle-timeout 1
form -d "q=$line"
cp out before
for _ in $(seq 100); do
    ask "$at/metrics"
    ! grep -q '^tfm_model_loaded{model="de-en"} 0' out || break
    sleep 0.1
done
check "an unused model is unloaded after --idle-timeout" [ -n "$(grep '^tfm_model_loaded{model="de-en"} 0' out)" -a \
    -n "$(grep '^tfm_model_drops_total 1' out)" ]
form -d "q=$line"
check "the next request loads an unloaded model again" [ "$code" = 200 -a "$(cat out)" = "$(cat before)" ]
stop
check "the server exits with 0 after SIGTERM with --idle-timeout" [ "$ended" = 0 ]

echo "1..$count"
