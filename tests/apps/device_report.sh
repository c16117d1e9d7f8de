# tfm tune, report and selftest, on the device as it is and emulating a GPU.
#     sh tests/apps/device_report.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# Prints TAP. With TFM_BRIEF=1 PoCL compiles without optimization, fewer candidates are timed, and no whole report is
# made.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
layer=$(realpath "$3")
demo=$root/apps/demo
. "$root/tests/checks.sh"

# Emulates a GPU with small work-groups and thus few candidates: PoCL takes about a second for each build, less
# without optimization. Brief runs time no candidate of CLBlast, which takes ten seconds to build.
as_gpu() {
    TFM_GEMM=${gemm:-auto} POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable OPENCL_LAYERS=$layer TFM_FAULT_LIE=type=4,width=1,local=32768,max_group=64 "$tfm" "$@" >out 2>err
    code=$?
}
tables() {
    find "$TFM_CACHE_DIR" -name '*.table' 2>/dev/null | wc -l
}

# ---- tune
gemm=
brief && gemm=builtin
kept=$TFM_CACHE_DIR
unoptimized
[ "$TFM_CACHE_DIR" = off ] && export TFM_CACHE_DIR="$here/cache" # tuning needs a cache
optimized() {
    brief && unset POCL_EXTRA_BUILD_FLAGS
    export TFM_CACHE_DIR="$kept"
}
run tune --preset huge
check "tune --preset with an unknown preset is a usage error" one_sentence 2 'tiny|small|base|big'
run tune stray
check "tune with a positional argument is a usage error" one_sentence 2 "'stray'"
run tune -m "$demo" --preset tiny
check "tune with -m and --preset is a usage error" one_sentence 2 '-m and --preset do not go together'
if run tune --preset tiny --seconds 1 && grep -q 'variant cpu' err; then
    check "tune says that a CPU with wide vectors has nothing to tune" both 0 says err 'there is nothing to tune'
    run tune --reset
    check "tune --reset says that there is no table to delete" both 0 says err 'the tuning table and the kernel validation results of .* are removed'
    as_gpu tune --preset tiny --seconds 1
    check "tune on a GPU prints times before and after for each matrix size" both 0 says out '^4x128x128nt  *[a-z]* .* [0-9.]*$'
    check "tune --seconds says how many sizes the time sufficed for" says err 'the time was up after [0-9]* of [0-9]* GEMMs: give more by --seconds [0-9]*'
    check "tune says how many matrix sizes are faster" says err '^[0-9]* of [0-9]* are faster by the table'
    gemm=builtin as_gpu tune --preset tiny --seconds 1 --json # CLBlast's work-groups may exceed the limit
    check "tune --json prints one object for each matrix size" both 0 python3 -c '
import json
for line in open("out"):
    row = json.loads(line)
    assert row["after_s"] <= row["before_s"] and row["tried"] > 1 and row["wrong"] == 0, row'
    if ! brief; then
        for seconds in 4 8 16 32; do # of the first two GEMMs
            as_gpu tune --preset tiny --seconds "$seconds" --precision bf16
            says out '^4x128x128nt bf16 ' && break
        done
        check "tune --precision bf16 tunes bf16 weights after fp32" \
            both 0 [ "$(grep -c '^4x128x128nt  ' out)$(grep -c '^4x128x128nt bf16  ' out)" = 11 ]
    fi
    as_gpu tune --precision int8
    check "tune --precision int8 is a usage error" both 2 says err 'fp32|fp16|bf16'
    as_gpu tune -m nowhere
    check "tune names a model directory that does not exist" both 1 says err 'nowhere'
    as_gpu tune -m "$demo" --seconds 1
    check "tune -m tunes the matrix sizes of a model" both 0 says out "^4x$(sed -n 's/.*"d_model": *\([0-9]*\).*/\1/p' "$demo/config.json")x"
    as_gpu tune -m "$root/tests/golden/families/bert-base-f16" --seconds 1
    check "tune -m of an encoder-only model has no decode step and no vocabulary" \
        both 0 [ "$(grep -c '^512x24x24nt ' out)$(grep -c '^4x\|x0x' out)" = 10 ]
    as_gpu tune -m "$root/tests/golden/families/llama-wide-heads-f32" --seconds 1
    check "tune -m has separate sizes for queries, keys and values" \
        both 0 [ "$(grep -c '^4x24x16nt ' out)$(grep -c '^4x16x16nt ' out)" = 10 ]
    echo Danke. >in # on a CPU without optimization each token takes seconds
    if ! brief; then
        (optimized && run translate -m "$demo" -i in)
        mv out translated
        as_gpu translate -m "$demo" -i in
        check "a tuning table changes no translation" same out translated
    fi
    as_gpu tune --reset
    check "tune --reset deletes the tuning table" [ "$code" = 0 -a "$(tables)" = 0 ]
    TFM_CACHE_DIR=off as_gpu tune --preset tiny --seconds 1
    check "tune without a cache directory is an error before anything is measured" \
        [ "$code" = 1 -a "$(grep -c 'give TFM_CACHE_DIR a folder that you own' err)" = 1 -a ! -s out ]
    if ! brief; then
        # Slow work-groups of the heuristic let another candidate win: a table is stored; then a folder is in its place.
        mkdir -p slow
        for file in gemm_gpu_skinny gemm_gpu_tiled; do
            {
                echo 'inline size_t dawdle(uint d) { volatile int x = 0; for (int i = 0; i < 400000; i++) x += i; return get_group_id(d); }'
                echo '#define get_group_id dawdle'
                cat "$root"/cl/*/"$file.cl"
            } >slow/$file.cl
        done
        mkdir -p blocked
        TFM_CL_DIR=$here/slow TFM_CACHE_DIR=$here/blocked as_gpu tune --preset tiny --seconds 1
        table=$(find blocked -name '*.table')
        check "tune stores a kernel that is faster" both 0 [ "$table" -a "$(grep -c '; it is stored for this device and driver' err)" = 1 ]
        rm -f "$table"
        mkdir "${table:=blocked/none.table}"
        TFM_CACHE_DIR=$here/blocked as_gpu translate -m "$demo" -i in
        check "a directory in place of the tuning table is ignored" both 0 [ "$(grep -c 'tfm tune' err)" = 0 ]
        TFM_CACHE_DIR=$here/blocked as_gpu tune --reset
        check "tune --reset reports a directory in place of the tuning table" both 1 [ "$(grep -c "a folder is in its place: remove ${table#*/} there" err)$(grep -c forgotten err)" = 10 ]
        TFM_CACHE_DIR=$here/blocked as_gpu tune --preset tiny --seconds 1
        check "tune reports a directory in place of the tuning table before it measures" both 1 [ "$(grep -c 'a folder is in its place' err)" = 1 -a ! -s out ]
        # Stops tune after the first win; it would run much longer.
        TFM_CL_DIR=$here/slow TFM_CACHE_DIR=$here/ended POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable OPENCL_LAYERS=$layer \
            TFM_FAULT_LIE=type=4,width=1,local=32768,max_group=64 "$tfm" tune --preset tiny >out 2>err &
        until [ "$(find ended -name '*.table' 2>/dev/null)" ] || ! kill -0 $! 2>/dev/null; do
            sleep 0.05
        done
        kill -s TERM $! 2>/dev/null
        wait $! 2>/dev/null
        code=$?
        check "tune keeps its table after SIGTERM" [ "$code" = 143 -a "$(find ended -name '*.table' | wc -l)" = 1 ]
    fi
else
    skip "tune on a GPU" "the device is no CPU with wide vectors"
fi

# ---- report
optimized
run report -o ''
check "report -o '' is a usage error" both 2 says err 'give a file name without .md or .json'
run report -o nowhere/report
check "report reports a directory that cannot be written before it measures" one_sentence 1 'nowhere/report.json'
for suffix in json md; do
    mkdir "taken.$suffix"
    run report -o taken
    check "report reports a directory in place of the .$suffix file" one_sentence 1 "taken.$suffix: there is a folder of that name"
    rmdir "taken.$suffix"
done
for name in . .. "$here/" nowhere/..; do
    run report -o "$name"
    check "report -o '$name' is a usage error" both 2 says err 'give a file name without .md or .json'
done
check "report writes no file after an error" [ -z "$(find . -name '*.md' -o -name '*.json' | grep -v '^./\(blocked\|ended\)')" ]
# A device lost at its first kernel: all later calls fail at once.
OPENCL_LAYERS=$layer TFM_FAULT_NAME=clCreateKernel TFM_FAULT_CALL=1 TFM_FAULT_DEAD=1 run report -o lost
check "report of a lost device writes both files and says that they are incomplete" \
    both 1 [ "$(grep -c 'lost.md and lost.json are written' err)$(grep -c '^tfm: the report is incomplete: ' err)" = 11 ]
check "report of a lost device has the error in both files" \
    both 1 [ "$(grep -c '^ "failed": ".*CL_' lost.json)$(grep -c '^- the report is incomplete, something FAILED:' lost.md)" = 11 ]
check "report of a lost device is at most 80 columns wide" [ "$(grep -v '^#' lost.md | awk 'length > 80' | wc -l)" = 0 ]

# ---- The self-test
export TFM_CACHE_DIR=off # a cache would compile once more for binaries
brief && export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
self_test
if brief; then
    echo "1..$count"
    exit
fi

# ---- A whole report: PoCL optimizes the kernels of the self-test and the timings for more than a minute, and builds
# those of an emulated GPU for minutes (TFM_FACTS_ALL=1).
if [ "${TFM_FACTS_ALL:-}" ]; then
    as_gpu report -o seen
    check "report of a GPU has its GEMM providers" grep -q '"provider": *"gpu-tiled"' seen.json
else
    run report -o seen
fi
check "report says what to do with its two files" both 0 says err 'seen.md and seen.json are written; attach both'
check "report has host, device, self-test, peak and benchmark rows" python3 -c '
import json
report = json.load(open("seen.json"))
assert report["format"] == 1 and report["tfm"]["tfm"] and report["host"]["cores"]
assert report["tfm"]["build"].split(" by ")[1][0].isalpha(), "by which compiler?"
assert all(report["device"][name] for name in ("platform", "driver", "extensions", "compute units", "tuning"))
assert len(report["self_test"]) > 50 and not any(check["state"] == "FAIL" for check in report["self_test"])
assert report["peak"]["gflops"] > 0 and report["peak"]["gbytes_per_s"] > 0
rows = report["bench"]
assert {row["bench"] for row in rows} == {"copy", "layernorm", "softmax", "gemm", "fp16", "bf16", "int8", "attention",
                                          "both ways", "a token"}, rows
assert not any("failed" in row for row in rows), rows
assert all(row["spread"] >= 0 and row["median_s"] > 0 for row in rows if "declined" not in row)
assert {row["shape"] for row in rows if row["bench"] == "a token"} == {"small, beam 1", "small, beam 4"}
assert 0 <= report["spread"]["median"] <= report["spread"]["most"]
assert float(report["host"]["load before"]) >= 0 and float(report["host"]["load after"]) >= 0
assert all(0 < row["percent"] < 1000 for row in rows if "percent" in row)'
check "report lists unavailable checks without calling them failures" both 0 [ "$(grep -c '^All [0-9]* checks passed\.$' seen.md)" = 1 -a \
    "$(grep -c 'FAILED' seen.md)" = 0 -a -n "$(grep -E '^([0-9]* (is|are) n|N)ot available on this device, which is no failure:$' seen.md)" ]
check "report says how much its timings differ" \
    both 0 [ "$(grep -c '^Turns of a row differ by [0-9]* % of its time in the median, and by [0-9]* % at most\.$' seen.md)$(grep -c '^- load before: [0-9]*\.[0-9][0-9]$' seen.md)" = 11 ]
check "report is at most 80 columns wide" [ "$(grep -v '^#' seen.md | awk 'length > 80' | wc -l)" = 0 ]
check "report contains no home directory, host name or path" \
    [ "$(grep -cwF -e "$HOME" -e "$(uname -n)" -e "$here" -e "$root" seen.md seen.json | grep -v ':0$')" = "" ]

echo "1..$count"
