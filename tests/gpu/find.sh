# The programs that the library asks a GPU for: runs the tests and gpu_programs under a layer by which PoCL's device poses
# as one, and nothing is computed (pose.c). What a test says of results is not heard then (tests/support/harness.h).
#     sh tests/gpu/find.sh BUILD FOLDER POSE...       POSE as TFM_POSE has it: group=1024,local=32768
# TFM_POSE_TESTS are the tests that are run, all if it is not set. What asks for odd shapes is most of them.
# Writes NAME-HASH.cl, options on the first line, and NAME-HASH.launches into FOLDER, which is emptied before.
set -eu
build=$(realpath "${1:?give a build folder}")
rm -rf "${2:?give a folder for the programs}"
mkdir -p "$2"
TFM_POSE_PROGRAMS=$(realpath "$2")
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# PoCL builds each program too, for its parameters' sake: a cache that the caller has spares most of that, and since
# nothing is computed, nothing need be optimized.
mkdir -p "$scratch/pocl" "$scratch/tmp"
unset TFM_LOG TFM_CL_DIR TFM_PROFILE RUSTICL_ENABLE
export TFM_POSE_PROGRAMS OPENCL_LAYERS="$build/tests/gpu/pose_layer.so" TFM_CACHE_DIR=off TFM_DEVICE=pocl TFM_GEMM=builtin \
    POCL_CACHE_DIR="${POCL_CACHE_DIR:-$scratch/pocl}" POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable TMPDIR="$scratch/tmp"

# Not those that meet faults, which bring a layer of their own, nor what learns, which would train in vain, nor what asks
# for other devices, nor the emulations of matrix engines, which no GPU runs: engines.sh asks for what GPUs do.
left_out=" test_gemm_mma test_gemm_mma_multistage test_bf16_training_gemm test_bf16_training test_fault test_device_limits test_train_fault test_learns test_devices test_cache "
for pose; do
    for test in ${TFM_POSE_TESTS-"$build"/tests/test_*}; do
        test=$build/tests/${test##*/}
        [ -f "$test" ] && [ -x "$test" ] || continue
        case $left_out in
        *" ${test##*/} "*) ;;
        *) echo "TFM_POSE=$pose $test" ;;
        esac
    done
    echo "TFM_POSE=$pose $build/apps/tfm selftest"
    echo "TFM_POSE=$pose $build/tests/gpu/gpu_programs"
done >"$scratch/list"
# Most of them fail, since zeros are not what they want: that is nothing to worry about as long as programs are found.
xargs -P "$(nproc)" -I RUN sh -c 'timeout 300 env RUN >/dev/null 2>&1 || :' <"$scratch/list"
cd "$TFM_POSE_PROGRAMS"
for file in *.cl; do
    [ -e "$file" ] || {
        echo "no program was found: is $OPENCL_LAYERS built, and is there PoCL?" >&2
        exit 1
    }
done
[ "$(printf '%s\n' *.cl | sed 's/-[0-9a-f]\{16\}[.]cl$//' | sort -u | wc -l)" -ge 5 ] || {
    echo "programs of hardly any kernel file were found: does record.c know what the prelude takes in?" >&2
    exit 1
}
# Emulations that a test asks for besides what GPUs run, as one of weights in 16 bits does.
for file in gemm_mma-*.cl gemm_mma_multistage-*.cl; do
    [ ! -e "$file" ] || sed -n 1p "$file" | grep -q TFM_HAS_MMA || rm "$file" "${file%.cl}.launches"
done
for file in *.launches; do
    sort -u -o "$file" "$file"
done
