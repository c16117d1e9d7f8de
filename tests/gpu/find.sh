# Records the programs that the library requests for a GPU: runs the tests and gpu_programs under a layer that makes
# PoCL's device report a GPU's properties and computes nothing (pose.c). Checks of results are ignored then
# (tests/support/harness.h).
#     sh tests/gpu/find.sh BUILD FOLDER POSE...       POSE as in TFM_POSE: group=1024,local=32768
# TFM_POSE_TESTS: the tests to run, default all; most programs come from odd shapes in tests.
# Writes NAME-HASH.cl, build options in the first line, and NAME-HASH.launches to FOLDER, which is emptied first.
set -eu
build=$(realpath "${1:?give a build folder}")
rm -rf "${2:?give a folder for the programs}"
mkdir -p "$2"
TFM_POSE_PROGRAMS=$(realpath "$2")
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# PoCL builds each program too, because of its parameters. The caller's cache avoids most builds, and optimization is
# not needed because nothing is computed.
mkdir -p "$scratch/pocl" "$scratch/tmp"
unset TFM_LOG TFM_CL_DIR TFM_PROFILE RUSTICL_ENABLE
export TFM_POSE_PROGRAMS OPENCL_LAYERS="$build/tests/gpu/pose_layer.so" TFM_CACHE_DIR=off TFM_DEVICE=pocl TFM_GEMM=builtin \
    POCL_CACHE_DIR="${POCL_CACHE_DIR:-$scratch/pocl}" POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable TMPDIR="$scratch/tmp"

# Not the fault injection tests, which use another layer; training, which cannot learn here; tests that open other
# devices; emulated MMA kernels, which no GPU runs: engines.sh covers the real ones.
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
# Most of them fail, because results are zeros; only the recorded programs matter.
xargs -P "$(nproc)" -I RUN sh -c 'timeout 300 env RUN >/dev/null 2>&1 || :' <"$scratch/list"
cd "$TFM_POSE_PROGRAMS"
for file in *.cl; do
    [ -e "$file" ] || {
        echo "no program was found: is $OPENCL_LAYERS built, and is there PoCL?" >&2
        exit 1
    }
done
[ "$(printf '%s\n' *.cl | sed 's/-[0-9a-f]\{16\}[.]cl$//' | sort -u | wc -l)" -ge 5 ] || {
    echo "too few kernel files were found: does record.c know all includes of the prelude?" >&2
    exit 1
}
# Removes emulated kernels that a test requests along with real ones, such as that of 16-bit weights.
for file in gemm_mma-*.cl gemm_mma_multistage-*.cl; do
    [ ! -e "$file" ] || sed -n 1p "$file" | grep -q TFM_HAS_MMA || rm "$file" "${file%.cl}.launches"
done
for file in *.launches; do
    sort -u -o "$file" "$file"
done
