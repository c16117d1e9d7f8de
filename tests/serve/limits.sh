# tfm serve: API keys, CORS, limits, fairness, malformed requests, timeouts, failing models, and a second signal.
#     sh tests/serve/limits.sh PROGRAM SOURCE_ROOT MAKE_DECODER [REQUESTS]
# REQUESTS: number of malformed requests, 220 by default. Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
requests=${4:-220}
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

translation=$(echo "$line" | "$tfm" translate -m "$demo" --split)
many_lines

# ---- Keys and limits
printf '# two keys\n0123456789abcdef\nfedcba9876543210\n' >keys
start -m "$demo" --api-keys keys --max-queue 40 --max-client 30 --timeout 3 --allow-origin https://page.example
for path in /v1/chat/completions /translate; do
    ask "$at$path" -X OPTIONS -H 'Origin: https://page.example' -H 'Access-Control-Request-Method: POST' \
        -H 'Access-Control-Request-Headers: authorization,content-type,x-stainless-os'
    check "a CORS preflight allows the origin and the headers that clients add: $path" [ "$code" = 204 -a \
        -n "$(grep -i '^Access-Control-Allow-Origin: https://page.example' head)" -a \
        -n "$(grep -i '^Access-Control-Allow-Headers: Authorization, Content-Type, \*' head)" ]
done
json /v1/chat/completions '{}'
check "an unauthorized answer has the CORS header" [ "$code" = 401 -a -n "$(grep -i '^Access-Control-Allow-Origin: https://page.example' head)" ]
form -d "q=$line"
check "POST /translate without a required key answers 400" [ "$code" = 400 -a "$(cat out)" = '{"error":"Please contact the server operator to get an API key"}' ]
form -d "q=$line" -d api_key=0123456789abcdeX
check "POST /translate with a wrong key answers 403" [ "$code" = 403 -a "$(cat out)" = '{"error":"Invalid API key"}' ]
form -d "q=$line" -d api_key=0123456789abcdef
check "POST /translate with a key in its form answers the translation" [ "$code" = 200 ]
form -d "q=$line" -H 'Authorization: Bearer fedcba9876543210'
check "POST /translate with a bearer token answers the translation" [ "$code" = 200 ]
ask "$at/v1/models"
check "GET /v1/models without a required key answers 401" [ "$code" = 401 ]
head -31 lines >some
ask "$at/translate" --data-urlencode "q@some" -d source=de -d target=en -d api_key=0123456789abcdef
check "more lines than --max-client answer 429 with Retry-After" [ "$code" = 429 -a -n "$(grep -i '^retry-after: [1-9]' head)" ]
head -41 lines >some
ask "$at/translate" --data-urlencode "q@some" -d source=de -d target=en -d api_key=0123456789abcdef
check "more lines than --max-queue answer 503 with Retry-After" [ "$code" = 503 -a -n "$(grep -i '^retry-after: [1-9]' head)" ]
python3 - "$port" <<'END' >slow
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
said = "held"
try:
    for byte in b"POST /translate HTTP/1.1\r\nHost: x\r\nX: " + 300 * b"x": # a byte every 0.1 s, for half a minute
        s.send(bytes([byte]))
        s.settimeout(0.1)
        try:
            if s.recv(1) == b"":
                said = "closed"
                break
        except TimeoutError:
            pass
except OSError:
    said = "closed"
print(said)
END
check "a client that sends its headers too slowly is disconnected" says slow '^closed$'
start -m "$demo" --api-keys keys --batch-tokens 256 --timeout 600
form -d "q=$line" -d api_key=fedcba9876543210 # loads the model
head -400 lines >many.de
curl -s "$at/translate" --data-urlencode "q@many.de" -d source=de -d target=en -d api_key=0123456789abcdef >drained &
large=$!
sleep 0.3
form -d "q=$line" -d api_key=fedcba9876543210
check "one client's line is translated before another client's hundreds end" kill -0 $large
wait $large
check "hundreds of lines of one client are translated next to another's line" [ "$(python3 -c 'import json; print(len(json.load(open("drained"))["translatedText"].split("\n")))')" = 401 ]
python3 "$root/tests/serve/abuse.py" "$port" "$requests" 0123456789abcdef "$line" "$translation" >out
code=$?
check "$requests malformed requests get the right status, and valid ones between them their translation" both 0 says out '"wrong": 0'
stop
check "the server exits with 0 after malformed requests" [ "$ended" = 0 ]

# ---- Limits of keys
printf '0123456789abcdef 3 40\r\n\nfedcba9876543210\n' >keys
start -m "$demo" --api-keys keys --timeout 600
ask "$at/v1/models" -H 'Authorization: Bearer 0123456789abcdef'
form -d "q=Das ist ein Satz mit mehr als vierzig Zeichen." -d api_key=0123456789abcdef
check "more characters than a key's limit answer 413" [ "$code" = 413 -a "$(cat out)" = '{"error":"Invalid request: request (46) exceeds text limit (40) of characters"}' ]
form -d "q=Das ist ein Satz mit mehr als vierzig Zeichen." -d api_key=fedcba9876543210
check "a key without limits has those of the server" [ "$code" = 200 ]
form -d "q=Danke." -d api_key=0123456789abcdef
ask "$at/detect" -d q=Danke. -d api_key=0123456789abcdef
check "as many requests as a key's limit are answered" [ "$code" = 200 ]
form -d "q=Danke." -d api_key=0123456789abcdef
check "more requests than a key's limit answer 429 with Retry-After" [ "$code" = 429 -a -n "$(grep -i '^retry-after: [12][0-9]*' head)" -a \
    -n "$(grep '{"error":"Slowdown: this key has 3 requests a minute: try again in [12][0-9]* s"}' out)" ]
json /v1/embeddings '{"model":"x","input":"a","api_key":"0123456789abcdef"}'
check "a key's limit is an OpenAI error under /v1/" [ "$code" = 429 -a -n "$(grep '"type":"rate_limit_error"' out)" ]
form -d "q=Danke." -d api_key=fedcba9876543210
check "one key's limit does not affect another key" [ "$code" = 200 ]
sleep 21 # a third of the minute
form -d "q=Danke." -d api_key=0123456789abcdef
check "requests of a key come back over the minute" [ "$code" = 200 ]
stop

# ---- Load failures, timeouts, and a second signal
cp -r "$demo" damaged
start -m "$demo" -m fr-en=damaged --timeout 3 --beam-size 8
: >damaged/model.safetensors
ask "$at/translate" -d q=a -d source=fr -d target=en
check "a model that fails to load answers 500 without its path" [ "$code" = 500 -a "$(cat out)" = '{"error":"The model or the device failed"}' ]
check "a model that fails to load is named in the log" grep -q '^tfm: damaged/model.safetensors' log
form --data-urlencode "q@lines"
check "a request beyond --timeout answers 503" [ "$code" = 503 -a \
    "$(cat out)" = '{"error":"The request took longer than 3 s: try again later"}' ]
form -d q=Danke.
check "the request after a timeout gets its translation" [ "$code" = 200 ]
start -m "$demo" --beam-size 8
form -d q=Danke. # loads the model
head -200 lines >many.de
ask "$at/translate" --data-urlencode "q@many.de" -d source=de -d target=en
ask "$at/metrics"
check "continuous batching admits lines into a running batch" awk \
    '/^tfm_lines_total/ { l = $2 } /^tfm_admitted_total/ { j = $2 } END { exit !(l > 200 && l - j < 100) }' out
curl -s -w '%{http_code}' "$at/translate" --data-urlencode "q@lines" -d source=de -d target=en >drained &
drained=$!
sleep 0.5
kill "$server"
sleep 0.2
stop
wait $drained
check "a second SIGTERM ends running requests with 503" says drained '^{"error":"The server is going down"}503$'
check "the server exits with 0 after a second SIGTERM" [ "$ended" = 0 ]

echo "1..$count"
