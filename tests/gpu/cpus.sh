# Builds programs with CPU feature tests (__F16C__, __AVX512VNNI__ and others) for CPUs that are not installed: with
# vectors of 16, 8 and 4 floats, with and without each feature. PoCL compiles only for the host CPU, so errors in other
# branches would reach users first.
#     sh tests/gpu/cpus.sh BUILD
# With TFM_BRIEF=1: only the CPUs with fewest and most features of each width.
# The last line is "N passed, N failed, N skipped"; the exit code is 1 if something failed.
set -u
build=$(realpath "${1:?give a build folder}")
clang=${GPU_CLANG:-clang-15}
command -v "$clang" >/dev/null || {
    echo "$clang is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
programs=$build/cpu-programs
rm -rf "$programs"
mkdir "$programs"
export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable # nothing is computed
for width in 16 8 4; do
    # They fail, because nothing is computed under the layer.
    for test in test_half_weights test_gemm_int8 test_gemm_cpu_bf16 test_gemm_cpu_bf16x3; do
        TFM_POSE=width=$width,unbuilt=1 TFM_POSE_PROGRAMS=$programs \
            OPENCL_LAYERS=$build/tests/gpu/pose_layer.so TFM_CACHE_DIR=off \
            TFM_DEVICE=pocl TFM_BRIEF=1 "$build/tests/$test" >/dev/null 2>&1 || :
    done
done

passed=0 failed=0
for program in $(grep -lE '__(F16C|AVX|ARM|aarch64)|vdpbf16ps' "$programs"/*.cl); do
    options=$(sed -n '1s,^// ,,p' "$program")
    case $options in
    *TFM_WIDTH=16*) cpus="x86_64:skylake-avx512 x86_64:cascadelake x86_64:sapphirerapids" ;;
    *TFM_WIDTH=8*) cpus="x86_64:sandybridge x86_64:haswell x86_64:alderlake" ;;
    *) cpus="x86_64:x86-64 aarch64:armv8-a aarch64:armv8.2-a+dotprod" ;;
    esac
    [ "${TFM_BRIEF:-}" != 1 ] || cpus="${cpus%% *} ${cpus##* }"
    for cpu in $cpus; do
        # shellcheck disable=SC2086 # words
        if said=$("$clang" -O0 --target="${cpu%%:*}-linux-gnu" -march="${cpu#*:}" -x cl $options -w -emit-llvm -S \
            -o /dev/null "$program" 2>&1); then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$(basename "$program" .cl) does not build for $cpu: $(echo "$said" | grep -m 1 error) [$options]"
        fi
    done
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
