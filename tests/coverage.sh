# Line and branch coverage of lib by all suites, counted by gcovr (Debian package gcovr):
#     sh tests/coverage.sh BUILD [LINES BRANCHES]
# Sets up BUILD with -Db_coverage=true if it is not there, runs all suites in it, and prints the percentages for lib.
# BUILD/uncovered.txt lists, file by file, the lines that nothing ran and the branches that were never taken, the files
# with most such lines first. With LINES and BRANCHES, percentages, less than that is a failure.
# Lines are executable lines; branches are all that gcov reports, with none excluded.
# Suites run with few shapes (TFM_BRIEF=1), which run the same lines, and with two tests at a time unless
# MESON_TESTTHREADS says otherwise. TFM_COVERAGE_KEEP=1 adds to the counts of the run before, and TFM_COVERAGE_SUITES
# names the suites to run, of those below.
# Of what -Db_coverage counts, a process that is killed leaves nothing. Two cores that do nothing else take 50 minutes.
# Ends with a line "N passed, N failed, N skipped".
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
    echo "there is no gcovr to install"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
[ -f "$build/build.ninja" ] ||
    meson setup "$build" --buildtype=debugoptimized -Db_coverage=true -Dc_args=-g1 -Dcpp_args=-g1 >/dev/null || exit 1
ninja -C "$build" --quiet || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
[ "${TFM_COVERAGE_KEEP:-}" = 1 ] || find "$build" -name '*.gcda' -delete

# part_of NAME COMMAND...: what tells by its exit code
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
    TFM_CACHE_DIR=off suite device "$build" --suite device --suite optimized-rows --suite families \
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
# The self-test of every op: as the device is, and as a GPU with the engines that PoCL emulates.
selftest() {
    part_of "the self-test" "$build/apps/tfm" selftest
    OPENCL_LAYERS="$build/tests/fault_layer.so" TFM_FAULT_LIE=type=4,width=1,local=32768 \
        part_of "the self-test as a GPU" "$build/apps/tfm" selftest
}
cached() { # binaries are stored and loaded
    TFM_CACHE_DIR="$build-cache" suite cached "$build" generate translation
}
for run in ${TFM_COVERAGE_SUITES:-device host unoptimized rows gpu clblast selftest cached}; do
    $run
done

# Counters of threads that meet may go astray by a few, also below 0; what matters is whether they are 0.
python3 tests/coverage.py "$root" "$build" "$least_lines" "$least_branches"
case $? in
0) echo "1 0 0" >>"$counts" ;;
*) echo "0 1 0" >>"$counts" ;;
esac
report
