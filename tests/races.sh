# Looks with oclgrind for races between work-items, and for accesses beyond buffers and local memory: in every op's
# kernels as GPUs run them, forward and backward, in those of matrix engines with the instruction emulated, and in those of
# searches.
#     sh tests/races.sh BUILD [NAME...]
# NAME is an op, an engine or a search of those that `BUILD/tests/races` lists, or a program of tests; without any it is all of that
# list, and the tests of two ops whose backward pass the list has not, or with one loss alone.
# Each runs on oclgrind, in a process of its own, and passes if its results are right and oclgrind's log is empty; both are
# in BUILD/races/NAME.out and .log. Before that, barriers that are missing in copies of two kernels must be found. Two busy
# cores take ten minutes for ops, and half an hour for engines. Ends with a line "N passed, N failed, N skipped"; the exit
# code says whether all is well.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${1:?give a build folder}")
shift
folder=$build/races
counts=$folder/counts
rm -rf "$folder"
mkdir -p "$folder/vendors" "$folder/cl"
. tests/suites.sh
icd=$(find /usr/lib /usr/local/lib -name liboclgrind-rt-icd.so 2>/dev/null | head -n 1)
[ -n "$icd" ] || {
    echo "there is no oclgrind"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
echo "$icd" >"$folder/vendors/oclgrind.icd"
unset TFM_LOG TFM_CL_DIR TFM_PROFILE
export OCL_ICD_VENDORS="$folder/vendors" TFM_DEVICE=oclgrind TFM_TEST_VARIANT=gpu TFM_CACHE_DIR=off TFM_GEMM=builtin OCLGRIND_DATA_RACES=1 \
    OCLGRIND_NUM_THREADS=1 OCLGRIND_MAX_ERRORS=20 OCLGRIND_GLOBAL_MEM_SIZE=1073741824

# clean NAME: whether the checks of NAME are right, and oclgrind, which exits with 0 in any case, has nothing to say
cat >"$folder/clean" <<'END'
case $3 in
rows-8) export OCLGRIND_LOCAL_MEM_SIZE=49152 ;; # as every NVIDIA has
esac
case $3 in
test_*) program=$2/tests/$3 ;;
*) program="$2/tests/races $3" ;;
esac
# shellcheck disable=SC2086 # words
OCLGRIND_LOG="$1/$3.log" $program >"$1/$3.out" 2>&1 || exit
[ -f "$1/$3.log" ] && [ ! -s "$1/$3.log" ]
END

# planted NAME: whether that is found which is wrong in the folder's copy of the kernels of NAME
planted() {
    if TFM_CL_DIR="$folder/cl" sh "$folder/clean" "$folder" "$build" "$1" || ! grep -q 'data race' "$folder/$1.log"; then
        echo "0 1 0" >>"$counts" && echo "a barrier that is missing in $1 is not found"
    else
        echo "1 0 0" >>"$counts"
    fi
    rm -f "$folder/$1".* "$folder"/cl/*
}

# A running sum whose items wait no more for each other; and products of few rows, of which several groups share a column.
sed 's/^\( *\)barrier(.*/\1;/' cl/reduce/cumsum.cl >"$folder/cl/cumsum.cl"
planted cumsum
awk '/^ *barrier\(/ && parts { next } { parts = parts && !/^#else/ || /^#if SLICED_K > 1/ } 1' cl/gemm/gemm_gpu_skinny.cl >"$folder/cl/gemm_gpu_skinny.cl"
if cmp -s cl/gemm/gemm_gpu_skinny.cl "$folder/cl/gemm_gpu_skinny.cl"; then
    echo "0 1 0" >>"$counts" && echo "there is no barrier to take from gemm_gpu_skinny.cl"
fi
planted gemm

[ $# -gt 0 ] || {
    names=$("$build/tests/races") || exit
    # shellcheck disable=SC2086 # words
    set -- $names test_ssru test_cross_entropy
}
printf '%s\n' "$@" | xargs -P "$(nproc)" -I NAME sh -c "if sh '$folder/clean' '$folder' '$build' NAME; then
        echo 1 0 0 >>'$counts'
    else
        echo 0 1 0 >>'$counts'
        echo 'NAME: failed'
        tail -n 3 '$folder/NAME.out'
        head -n 12 '$folder/NAME.log'
    fi"
cat "$folder"/*.out
report
