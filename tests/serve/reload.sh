# tfm serve: SIGHUP opens models and keys again.
#     sh tests/serve/reload.sh PROGRAM SOURCE_ROOT MAKE_DECODER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
make_decoder=$(realpath "$3")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

# negate DIR: a model with other results, in place of the old file
negate() {
    python3 - "$1/model.safetensors" <<'END_PYTHON'
import json, os, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
entries = [e for name, e in json.loads(data[8:start]).items() if name != "__metadata__"]
first, end = max((e["data_offsets"] for e in entries), key=lambda e: e[1] - e[0])
size = {"F32": 4, "F16": 2, "BF16": 2}[next(e["dtype"] for e in entries if e["data_offsets"] == [first, end])]
for i in range(start + first + size - 1, start + end, size):
    data[i] ^= 0x80
open(sys.argv[1] + ".new", "wb").write(data)
os.rename(sys.argv[1] + ".new", sys.argv[1])
END_PYTHON
}
# reload PATTERN: sends SIGHUP, and waits for a line of the log
reload() {
    lines=$(wc -l <log)
    kill -HUP "$server"
    for _ in $(seq 600); do
        ! tail -n "+$((lines + 1))" log | grep -q "$1" || return 0
        sleep 0.1
    done
    return 1
}
complete() {
    json /v1/completions '{"model":"chatty","prompt":"w10 w11","max_tokens":12,"temperature":0}'
    sed 's/.*"text":"\([^"]*\)".*/\1/' out >text
}

mkdir chatty pair
"$make_decoder" chatty
python3 "$root/tests/serve/make_words.py" chatty
cp "$demo"/*.json "$demo"/*.spm "$demo/model.safetensors" pair
for _ in $(seq 6); do
    tr '\n' ' ' <"$demo/test.de"
done >long.de
echo first-key-of-all >keys
start -m chatty -m de-en=pair --timeout 600 --max-chars 1000000 --api-keys keys
key='Authorization: Bearer first-key-of-all'
ask() {
    code=$(curl -s -g -m 120 -D head -o out -w '%{http_code}' -H "$key" "$@" 2>err)
}
complete
cp text old
ask "$at/translate" --data-urlencode "q@long.de" -d source=de -d target=en
cp out translated
curl -s -H "$key" "$at/translate" --data-urlencode "q@long.de" -d source=de -d target=en >running &
long=$!
sleep 0.3 # it runs
negate pair
negate chatty
"$tfm" generate -m chatty --max-new-tokens 12 "w10 w11" >want
printf 'second-key-of-all\nfirst-key-of-all\n' >keys
check "SIGHUP opens the models again" reload '^tfm: opened again: chatty, de-en$'
complete
check "requests after SIGHUP have the new weights" cmp -s text want
check "the new weights of the test give another text" [ "$(cat text)" != "$(cat old)" ]
wait $long
check "a request in progress at SIGHUP ends with the old weights" cmp -s running translated
form -d "q=$line"
cp out after
printf '%s\n' "$line" | "$tfm" translate -m pair --split >want
check "translations after SIGHUP have the new weights" [ "$(cat out)" = "{\"translatedText\":\"$(cat want)\"}" ]
key='Authorization: Bearer second-key-of-all'
complete
check "SIGHUP reads the keys again" [ "$code" = 200 ]
echo 'second-key-of-all 0' >keys
mv pair/model.safetensors kept
: >pair/model.safetensors
check "SIGHUP names the models that open" reload '^tfm: opened again: chatty; the rest stays as it was$'
check "SIGHUP names the file that does not open" [ "$(grep -c '^tfm: .*pair' log)" = 1 ]
check "SIGHUP names the line of a wrong file of keys" [ "$(grep -c '^tfm: keys, line 1' log)" = 1 ]
form -d "q=$line"
check "a model that does not open stays" cmp -s out after
ask "$at/metrics"
check "metrics continue after SIGHUP" [ "$(sed -n 's/^tfm_target_tokens_total{model="chatty"} //p' out)" = 36 ]
stop
check "the server exits with 0 after SIGHUP and SIGTERM" [ "$ended" = 0 ]

echo "1..$count"
