# Line and branch coverage of lib by all suites, counted by gcovr (Debian package gcovr):
#     sh tests/coverage.sh BUILD [LINES BRANCHES]
# Sets up BUILD with -Db_coverage=true if it does not exist, runs all suites in it, and prints the percentages for lib.
# BUILD/uncovered.txt lists for each file the lines that did not run and the branches never taken, worst files first.
# With LINES and BRANCHES, lower percentages are a failure. Lines are executable lines; branches are all that gcov
# reports. Suites run with few shapes (TFM_BRIEF=1), which cover the same lines, two tests at a time unless
# MESON_TESTTHREADS is set. TFM_COVERAGE_KEEP=1 adds to the counts of the previous run; TFM_COVERAGE_SUITES: the suites
# to run, of those below. A killed process leaves no counts. On two idle cores it takes half an hour. The last line is "N
# passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/${1#"$root"/}
least_lines=${2:-0} least_branches=${3:-0}
counts=$build-counts
export TFM_BRIEF=1 TFM_DEVICE=pocl MESON_TESTTHREADS="${MESON_TESTTHREADS:-2}"
export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
: >"$counts"
. tests/suites.sh

command -v gcovr >/dev/null || sh apps/packages.sh gcovr || {
    echo "gcovr cannot be installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
[ -f "$build/build.ninja" ] ||
    meson setup "$build" --buildtype=debugoptimized -Db_coverage=true -Dc_args=-g1 -Dcpp_args=-g1 >/dev/null || exit 1
umask 0 # tests that give up root's permissions write counts too
ninja -C "$build" --quiet || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
chmod -R a+rwX "$build"
[ "${TFM_COVERAGE_KEEP:-}" = 1 ] || find "$build" -name '*.gcda' -delete

# part_of NAME COMMAND...: a check by exit code
part_of() {
    echo "== $1"
    shift
    if "$@"; then
        echo "1 0 0" >>"$counts"
    else
        echo "0 1 0" >>"$counts"
        echo "failed: $*"
    fi
}

unoptimized() {
    POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable TFM_CACHE_DIR=off suite unoptimized "$build" --suite unoptimized
}
device() {
    TFM_CACHE_DIR=off suite device "$build" --suite device --suite optimized-rows --suite long-optimized-rows \
        --suite families \
        --no-suite unoptimized
}
host() {
    TFM_CACHE_DIR="$build-cache" suite host "$build" --suite host --suite long
}
rows() {
    POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable TFM_CACHE_DIR=off suite rows "$build" --suite rows --suite long-rows
}
clblast() {
    TFM_GEMM=clblast TFM_CACHE_DIR=off suite clblast "$build" model score_texts translation trainer
}
gpu() {
    TFM_CACHE_DIR=off as_gpu gpu "$build" model trainer
}
# The self-test of every op: on the device, and as a GPU with the MMA that PoCL emulates.
selftest() {
    part_of "the self-test" "$build/apps/tfm" selftest
    OPENCL_LAYERS="$build/tests/fault_layer.so" TFM_FAULT_LIE=type=4,width=1,local=32768 \
        part_of "the self-test as a GPU" "$build/apps/tfm" selftest
}
# Every allocation site, and damaged input of every reader.
memory() {
    (unset TFM_BRIEF && TFM_CACHE_DIR="$build-cache" suite memory "$build" host_memory host_memory_language)
}
fuzzers() {
    TFM_FUZZ_BUILD="$build" part_of "the fuzzers" sh tests/fuzz/run.sh 5
}
cached() { # stores and loads binaries
    TFM_CACHE_DIR="$build-cache" suite cached "$build" generate translation
}
for run in ${TFM_COVERAGE_SUITES:-device host unoptimized rows gpu clblast selftest memory fuzzers cached}; do
    $run
done

# Concurrent threads may miscount by a few, also below 0; it only matters whether counts are 0.
python3 tests/coverage.py "$root" "$build" "$least_lines" "$least_branches"
case $? in
0) echo "1 0 0" >>"$counts" ;;
*) echo "0 1 0" >>"$counts" ;;
esac
report
