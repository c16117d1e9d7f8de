# Checks kernels with oclgrind for races between work-items and accesses out of bounds, in global and local memory: the
# GPU kernels of every op, forward and backward, emulated MMA kernels, and those of generation.
#     sh tests/races.sh BUILD [NAME...]
# NAME: an op, kind of MMA or search listed by `BUILD/tests/races`, or a test program; default: all of the list, and the
# tests of two ops whose backward pass the list lacks, or has with one loss only. Each runs on oclgrind in a separate
# process, and passes if its results are right and oclgrind's log is empty; BUILD/races/NAME.out and .log have both.
# Before that, barriers removed from copies of two kernels must be found. On two cores the ops take ten minutes, MMA
# half an hour. The last line is "N passed, N failed, N skipped"; the exit code is 1 if something failed.
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
    echo "oclgrind is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
echo "$icd" >"$folder/vendors/oclgrind.icd"
unset TFM_LOG TFM_CL_DIR TFM_PROFILE
export OCL_ICD_VENDORS="$folder/vendors" TFM_DEVICE=oclgrind TFM_TEST_VARIANT=gpu TFM_CACHE_DIR=off TFM_GEMM=builtin OCLGRIND_DATA_RACES=1 \
    OCLGRIND_NUM_THREADS=1 OCLGRIND_MAX_ERRORS=20 OCLGRIND_GLOBAL_MEM_SIZE=1073741824

# clean NAME: 0 if the checks of NAME pass and oclgrind, which always exits with 0, logs nothing; 77 if all are skipped
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

# planted NAME: whether the fault in the folder's copy of the kernels of NAME is found
planted() {
    if TFM_CL_DIR="$folder/cl" sh "$folder/clean" "$folder" "$build" "$1" || ! grep -q 'data race' "$folder/$1.log"; then
        echo "0 1 0" >>"$counts" && echo "the missing barrier in $1 is not found"
    else
        echo "1 0 0" >>"$counts"
    fi
    rm -f "$folder/$1".* "$folder"/cl/*
}

# A cumulative sum without barriers; and skinny GEMM, with several work-groups per column.
sed 's/^\( *\)barrier(.*/\1;/' cl/reduce/cumsum.cl >"$folder/cl/cumsum.cl"
planted cumsum
awk '/^ *barrier\(/ && parts { next } { parts = parts && !/^#else/ || /^#if SLICED_K > 1/ } 1' cl/gemm/gemm_gpu_skinny.cl >"$folder/cl/gemm_gpu_skinny.cl"
if cmp -s cl/gemm/gemm_gpu_skinny.cl "$folder/cl/gemm_gpu_skinny.cl"; then
    echo "0 1 0" >>"$counts" && echo "no barrier to remove in gemm_gpu_skinny.cl"
fi
planted gemm

[ $# -gt 0 ] || {
    names=$("$build/tests/races") || exit
    # shellcheck disable=SC2086 # words
    set -- $names test_ssru test_cross_entropy
}
printf '%s\n' "$@" | xargs -P "$(nproc)" -I NAME sh -c "if sh '$folder/clean' '$folder' '$build' NAME; then
        echo 1 0 0 >>'$counts'
    elif [ \$? = 77 ]; then
        echo 0 0 1 >>'$counts'
    else
        echo 0 1 0 >>'$counts'
        echo 'NAME: failed'
        tail -n 3 '$folder/NAME.out'
        head -n 12 '$folder/NAME.log'
    fi"
cat "$folder"/*.out
report
