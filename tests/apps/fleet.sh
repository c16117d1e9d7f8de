# The program on several devices: two equal ones of PoCL, with the same kernels.
#     sh tests/apps/fleet.sh PROGRAM SOURCE_ROOT FAULT_LAYER MAKE_DECODER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
layer=$(realpath "$3")
maker=$(realpath "$4")
. "$root/tests/checks.sh"
export POCL_DEVICES="pthread pthread"
unset TFM_DEVICE
if [ "$("$tfm" devices 2>/dev/null | grep -c 'pthread-.*Portable Computing')" -lt 2 ]; then
    skip "translate on two devices" "PoCL does not list two devices here"
    echo "1..$count"
    exit
fi
for pass in 1 2 3; do
    cat "$root/apps/demo/test.de"
done >lines
demo=$root/apps/demo
translate() {
    run translate -m "$demo" -i lines --beam-size 1 --batch-tokens 64 "$@"
}
warned() { # warned COUNT: this many warnings, and nothing else on stderr
    [ "$(grep -c '^tfm: warning: device [12] of the fleet' err)" = "$1" ] && [ "$(wc -l <err)" = "$1" ]
}
fault() { # fault NUMBER NAME [SETTING...]
    number=$1 name=$2
    shift 2
    (
        export OPENCL_LAYERS="$layer" TFM_FAULT_CALL="$number" TFM_FAULT_NAME="$name" "$@"
        translate --device pocl,pocl
        echo "$code" >code
    )
    code=$(cat code)
}

translate --device pocl
cp out one
translate --device pocl,pocl
check "translate on two devices writes the lines of one device in order" same out one
TFM_DEVICE=0,1 TFM_LOG=info translate
check "TFM_DEVICE=0,1 selects two devices" same out one
check "translate on two devices uses both" [ "$(grep -c 'device [12] of the fleet has done [1-9]' err)" = 2 ]

# ---- Failures
for number in 20 700; do
    fault "$number" clEnqueueNDRangeKernel X=
    check "translate finishes on the other device when kernel $number fails on one" same out one
    check "translate warns once when kernel $number fails on one device" warned 1
done
fault 3 clEnqueueReadBuffer X=
check "translate finishes on the other device when a read fails on one" same out one
check "translate warns once when a read fails on one device" warned 1
fault 700 clEnqueueNDRangeKernel TFM_FAULT_DEAD=1
check "translate exits with 1 when both devices fail" [ "$code" = 1 ]
check "translate prints one warning and one error when both devices fail" [ "$(grep -c '^tfm: warning: device' err) $(grep -c '^tfm: ' err)" = "1 2" ]

# ---- Other commands
run score -m "$demo" --src lines --tgt lines --batch-tokens 64 --device pocl
cp out one
run score -m "$demo" --src lines --tgt lines --batch-tokens 64 --device pocl,pocl
check "score on two devices equals one device up to rounding" both 0 awk 'NR == FNR { a[FNR] = $1; n[FNR] = $2; next }
    $2 != n[FNR] || ($1 - a[FNR]) ^ 2 > 1e-6 { exit 1 } END { exit FNR != 60 }' one out
mkdir model
"$maker" model || exit 1
for first in $(seq 3 30); do
    echo "$first $((first + 1)) $((33 - first))"
done >prompts
run generate -m model --token-ids --max-new-tokens 8 --batch-tokens 64 -i prompts --device pocl
cp out one
run generate -m model --token-ids --max-new-tokens 8 --batch-tokens 64 -i prompts --device pocl,pocl
check "generate on two devices equals one device" same out one

# ---- Workers: same batches as one, thus bit-identical
translate --device pocl --scores
cp out one
translate --device pocl --scores --workers 3
check "translate --workers 3 equals one worker in texts and scores" same out one
TFM_LOG=info translate --device pocl --workers 2
check "translate --workers 2 uses both workers" [ "$(grep -c 'device [12] of the fleet has done [1-9]' err)" = 2 ]
run translate -m "$demo" -i lines --workers 17
check "translate --workers 17 is a usage error" one_sentence 2 '--workers is 17: give 1 to 16'

# ---- eval: the figures of one device, also if a kernel fails on one of two
cat "$demo/test.de" >src
cp "$demo/test.de" ref
run eval -m "$demo" --src src --ref ref --beam-size 1 --device pocl
cp out one
(
    export OPENCL_LAYERS="$layer" TFM_FAULT_CALL=300 TFM_FAULT_NAME=clEnqueueNDRangeKernel
    run eval -m "$demo" --src src --ref ref --beam-size 1 --batch-tokens 64 --device pocl,pocl
    echo "$code" >code
)
code=$(cat code)
check "eval equals one device up to rounding when a kernel fails on one of two" both 0 awk '
    NR == FNR { line[FNR] = $0; last = $NF; next }
    $1 == "ppl" ? ($NF / last - 1) ^ 2 > 1e-8 : $0 != line[FNR] { exit 1 } END { exit FNR != 4 }' one out
check "eval warns once when a kernel fails on one of two devices" warned 1

# ---- Lists
TFM_DEVICE=pocl,pocl run devices --json
check "devices --json marks both devices of TFM_DEVICE as chosen" both 0 [ "$(grep -c '"chosen": true' out)" = 2 ]
run selftest --device 0,1
check "selftest with two devices is an error" one_sentence 1 'lists several devices'
run score -m "$demo" --src lines --tgt lines --device 0,99
check "score names a device of the list that does not exist" one_sentence 1 '"99" matches no device'
run score -m "$demo" --src lines --tgt lines --device 0,pocl,pocl
check "score names a device listed more often than it exists" one_sentence 1 'lists "pocl"'
echo "1..$count"
