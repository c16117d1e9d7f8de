# tfm serve on several devices: two equal ones of PoCL, with the same kernels.
#     sh tests/serve/fleet.sh PROGRAM SOURCE_ROOT FAULT_LAYER MAKE_DECODER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
layer=$(realpath "$3")
maker=$(realpath "$4")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"
export POCL_DEVICES="pthread pthread"
unset TFM_DEVICE
if [ "$("$tfm" devices 2>/dev/null | grep -c 'pthread-.*Portable Computing')" -lt 2 ]; then
    echo "1..0 # SKIP PoCL does not list two devices here"
    exit 0
fi
demo=$root/apps/demo

# serve SETTING... -- ARGUMENT...: a server with these environment settings
serve() {
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    start --quiet --timeout 600 --batch-tokens 256 -m "$demo" -m chatty -m "vec=$root/tests/golden/embedder" --beam-size 1 "$@"
}
# translate, embed, write: requests; write `out`, and set $code to the status
translate() {
    code=$(curl -s -m 600 -o out -w '%{http_code}' "$at/translate" --data-urlencode q@lines -d source=de -d target=en)
}
embed() {
    code=$(curl -s -m 600 -o out -w '%{http_code}' "$at/v1/embeddings" -H 'Content-Type: application/json' \
        -d '{"model":"vec","input":["Good morning.","Where is Tom?","I have sold the car."]}')
}
complete() { # complete STREAM: completions of four prompts in one request; four requests would not be one batch
    curl -s -N -m 600 "$at/v1/completions" -H 'Content-Type: application/json' \
        -d "{\"model\":\"chatty\",\"prompt\":[\"w10 w11\",\"w12\",\"w13 w14 w15\",\"w16\"],\"max_tokens\":12,\"temperature\":0,\"stream\":$1}" |
        sed 's/"id":"[^"]*"//g; s/"created":[0-9]*//g' >out
}
warned() { # warned COUNT: this many device warnings
    [ "$(grep -c '^tfm: warning: device [12] of the fleet' log)" = "$1" ]
}
near() { # near FILE FILE: the embeddings are equal up to rounding
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
a, b = ([v["embedding"] for v in json.load(open(path))["data"]] for path in sys.argv[1:])
assert len(a) == len(b) == 3
assert all(abs(x - y) < 1e-4 for v, w in zip(a, b) for x, y in zip(v, w))
PYTHON
}

mkdir chatty
"$maker" chatty && python3 "$root/tests/serve/make_words.py" chatty || exit 1
awk '{ print; print $0 " " $0 }' "$demo/test.de" >lines

serve -- -d pocl
translate
check "the server on one device answers 200" [ "$code" = 200 ]
cp out one
embed
cp out vectors
complete false
cp out written
complete true
sort out >streamed
check "the server on one device completes texts" says written '"text":" w'

serve TFM_DEVICE=pocl,pocl TFM_LOG=info --
translate
check "the server on two devices of TFM_DEVICE gives the same translations" cmp -s out one
check "the server on two devices uses both" [ "$(grep -c 'device [12] of the fleet has done [1-9]' log)" -ge 2 ]
embed
check "the server on two devices gives the same embeddings up to rounding" near out vectors
complete false
check "the server on two devices gives the same completions" cmp -s out written
complete true
sort out >sorted
check "the server on two devices streams the same completions" cmp -s sorted streamed
for field in '"logprobs":1' '"grammar":"root ::= \"a\""'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",$field}"
    check "the server on two devices rejects $field by its name" [ "$code" = 400 -a \
        -n "$(grep 'is not supported by a server with several devices.*"param":"[lg]' out)" ]
done
curl -s "$at/status" >out
check "GET /status names both devices" [ "$(grep -o 'pthread-' out | wc -l)" = 2 ]
stop
check "the server on two devices exits with 0 after SIGTERM" [ "$ended" = 0 ]

serve OPENCL_LAYERS="$layer" TFM_FAULT_CALL=50 TFM_FAULT_NAME=clEnqueueNDRangeKernel -- -d pocl,pocl
translate
check "the server translates on the other device when a kernel fails on one" cmp -s out one
check "the server warns once when a kernel fails on one device" warned 1
translate
check "the server answers the request after a device failed" cmp -s out one
check "the server does not repeat the warning of a failed device" warned 1

serve OPENCL_LAYERS="$layer" TFM_FAULT_CALL=300 TFM_FAULT_NAME=clEnqueueNDRangeKernel TFM_FAULT_DEAD=1 \
    TFM_FAULT_CODE=-36 -- -d pocl,pocl
translate
check "the server answers 500 when both devices fail" [ "$code" = 500 ]
check "the server logs one warning and one error when both devices fail" [ "$(grep -c '^tfm: warning: device' log) $(grep -c '^tfm: ' log)" = "1 3" ]
settings="OPENCL_LAYERS=$layer TFM_FAULT_CALL=1 TFM_FAULT_NAME=clCreateBuffer TFM_FAULT_DEAD=1"
start -m "$demo" -d pocl --preload
for _ in $(seq 100); do
    ! grep -q '^tfm: [^s]' log || break
    sleep 0.1
done
code=$(curl -s -o out -w '%{http_code}' "$at/ready")
check "GET /ready answers 503 if a model of --preload does not open" [ "$code" = 503 -a "$(cat out)" = '{"status":"a model is not open"}' ]
check "a model of --preload that does not open is an error in the log" [ "$(grep -c '^tfm: [^s]' log)" = 1 ]
stop
echo "1..$count"
