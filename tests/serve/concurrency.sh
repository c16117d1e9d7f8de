# tfm serve: many connections, continuous batching, several workers, clients that disconnect, and shutdown.
#     sh tests/serve/concurrency.sh PROGRAM SOURCE_ROOT
# Prints TAP. With TFM_BRIEF=1 the load is smaller.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

translation=$(echo "$line" | "$tfm" translate -m "$demo" --split)
many_lines
load=500 long=500 # lines in many requests, and in one
brief && load=60 long=120
head -n $load lines >load
head -n $long lines >long
"$tfm" translate -m "$demo" --split <long >many
head -n $load many >load.want
# load CONNECTIONS: translates the lines of `load`
load() {
    python3 "$root/tests/serve/load.py" "$port" load --want load.want --connections "$1" >out
}
start -m "$demo" -m "fr-en=$demo" -m "embedder=$root/tests/golden/embedder" --memory-limit 250 --timeout 600
form -d "q=$line" # loads the model
load 32
check "$load lines over 32 connections equal tfm translate byte for byte" says out "\"lines\": $load,.*\"wrong\": 0"
ask "$at/metrics"
check "GET /metrics shows batches of several lines" awk '/^tfm_lines_total/ { l = $2 } /^tfm_batches_total/ { b = $2 } END { exit l < 1.5 * b }' out

# ---- Clients that disconnect, and shutdown
for _ in 1 2 3 4; do
    curl -s -m 0.05 "$at/translate" --data-urlencode "q@long" -d source=de -d target=en >left
done
sleep 0.5
form -d "q=$line"
check "the server translates after clients that disconnected" says out "$translation"
curl -s "$at/translate" --data-urlencode "q@long" -d source=de -d target=en >drained &
drained=$!
sleep 0.5
stop
wait $drained
check "SIGTERM lets a running request finish" [ "$(python3 -c 'import json; print(len(json.load(open("drained"))["translatedText"].split("\n")))')" = $((long + 1)) ]
check "the server exits with 0 after SIGTERM" [ "$ended" = 0 ]
check "the log has a JSON line for each request without its text" [ -n "$(grep '"path":"/translate","status":200' log)" -a \
    "$(grep -c "Fahrrad" log)" = 0 ]

# ---- Several workers
start -m "$demo" -m "embedder=$root/tests/golden/embedder" --workers 2 --timeout 600 --max-chars 1000000 --max-lines 5000
for connections in 1 32; do
    load "$connections"
    check "two workers give the same translations over $connections connections" grep -q '"wrong": 0' out
    ask "$at/metrics"
    had=$(sed -n 's/^tfm_model_workers{model="de-en"} //p' out)
    [ "$connections" = 1 ] || check "the second worker starts when one connection does not suffice" [ "$had" = 2 ]
    [ "$connections" = 32 ] || check "the second worker does not start for one connection" [ "$had" = 1 ]
done
check "a model without requests has no worker" grep -q '^tfm_model_workers{model="embedder"} 0' out
curl -s "$at/translate" --data-urlencode "q@long" -d source=de -d target=en >whole &
whole=$!
load 8
check "short requests next to a long one get their translations" grep -q '"wrong": 0' out
wait $whole
check "a long request next to short ones gets its translation" [ "$(python3 -c 'import json; print(json.load(open("whole"))["translatedText"], end="")' | cmp - many && echo same)" = same ]
parts=$((long * 2 / 5))
head -n $parts lines >long1
cat long1 long1 long1 >long2
curl -s -m 300 "$at/translate" --data-urlencode "q@long1" -d source=de -d target=en >one.json &
one=$!
sleep 0.05 # the second runs its first batch when the first worker ends, and no other request follows
curl -s -m 300 "$at/translate" --data-urlencode "q@long2" -d source=de -d target=en >three.json &
three=$!
wait $one
wait $three
check "two simultaneous long requests get their translations" python3 -c 'import json, sys
want = "".join(open("many").readlines()[:int(sys.argv[1])])
assert json.load(open("one.json"))["translatedText"] == want
assert json.load(open("three.json"))["translatedText"] == want * 3' $parts
stop
check "two workers exit with 0 after SIGTERM" [ "$ended" = 0 ]
cp -r "$demo" leaves
start -m leaves --workers 2 --timeout 600
ask "$at/translate" -d "q=$line" -d source=de -d target=en
mv leaves left-behind
load 16
check "the first worker serves all requests when the second cannot load the model" grep -q '"wrong": 0' out
stop
if ! brief; then # all from one address, as of one client with eight busy connections
    start -m "$demo" --workers 1 --timeout 120 --max-chars 1000000 --max-lines 5000
    load 8
    python3 "$root/tests/serve/load.py" "$port" load --connections 8 --repeat 6 >busy &
    busy=$!
    sleep 0.5
    ask "$at/translate" --data-urlencode "q@load" -d source=de -d target=en -d alternatives=1
    check "a long request with other options gets its turn among short ones" eval "[ $code = 200 ] && kill -0 $busy"
    wait $busy
    check "short requests next to one with other options get their translations" grep -q '"wrong": 0' busy
    stop
fi
run serve -m "$demo" --workers 5
check "serve rejects five workers" one_sentence 2 'give 1 to 4'
run serve -m "$demo" --workers 2 --memory-limit 500
check "serve rejects --workers 2 with --memory-limit" one_sentence 2 'do not go together'

echo "1..$count"
