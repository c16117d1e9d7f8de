# Checks the MMA kernels (matrix cores): records them like find.sh with a device that imitates each GPU, builds them,
# checks them like judge.sh, and searches the machine code for the MMA instruction, in multistage kernels
# (gemm_mma_multistage.cl) also for async copies. A multistage work-group may use 48 KiB of local memory, the limit of
# every NVIDIA GPU from sm_80 on; so may the forward attention tiles with eight rows per work-item, which are for the
# same GPUs. Also checks int8 GEMM for the GPU's four-way dot-product instruction.
#     sh tests/gpu/engines.sh BUILD [TARGET...]      targets of targets.sh; default: nvptx and three of AMD's, which
#                                                    need no vendor compiler (sm_80, dg2 and pvc do)
# The last line is "N passed, N failed, N skipped"; the exit code is 1 if something failed.
set -u
here=$(dirname "$0")
build=$(realpath "${1:?give a build folder}")
shift
[ $# -gt 0 ] || set -- nvptx gfx90a gfx1030 gfx1100
. "$here/targets.sh"
out=$build/gpu/engines
rm -rf "$out"
mkdir -p "$out/pocl" "$out/tmp"
passed=0 failed=0 skipped=0
export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable # nothing is computed

# ask NAME POSE: records the programs for this GPU in $out/NAME
ask() {
    mkdir "$out/$1"
    env -u TFM_LOG -u TFM_CL_DIR -u TFM_PROFILE OPENCL_LAYERS="$build/tests/gpu/pose_layer.so" TFM_CACHE_DIR=off \
        TFM_DEVICE=pocl TFM_POSE="$2,group=1024,local=65536,unbuilt=1" TFM_POSE_PROGRAMS="$out/$1" \
        POCL_CACHE_DIR="${POCL_CACHE_DIR:-$out/pocl}" TMPDIR="$out/tmp" "$build/tests/gpu/gpu_engines" \
        >"$out/$1.log" 2>&1 || echo "$1: $(tail -n 1 "$out/$1.log")" # programs will be missing
    find "$out/$1" -name '*.cl' ! -name 'gemm_mma-*' ! -name 'gemm_mma_multistage-*' ! -name 'attention*_tiled-*' \
        ! -name 'gemm_int8_*' -exec rm {} +
}

# judge TARGET NAME COUNT INSTRUCTION KERNEL: checks the programs of this kernel, which must be COUNT, for this target
judge() {
    missing=$(
        options='' "have_$1" | sort -u
        case $1 in
        dg2 | pvc) lacks "$iga" ;;
        esac
    )
    missing=$(echo "$missing" | sed '/^$/d' | paste -sd ';')
    if [ "$missing" ]; then
        echo "$1 $2: skipped: $missing"
        skipped=$((skipped + 1))
        return
    fi
    found=$(find "$out/$2" -name "$5-*.cl" | wc -l)
    if [ "$found" -ne "$3" ]; then
        echo "$1 $2: $found programs are requested, not $3"
        failed=$((failed + 1))
        return
    fi
    set -- "$@" "$out/$2/$5"-*.cl
    target=$1 name=$2 instruction=$4
    shift 5
    for program; do
        said=$(sh "$here/judge.sh" "$target" "$program" "$out/code")
        code=$out/code/$target/$(basename "$program" .cl).s
        case $said in
        *" good")
            case $target in
            dg2 | pvc) out=${code%.s} intel_words "$target" || said="$said, but cannot be read" ;;
            esac
            for each in $instruction; do
                grep -qE "$each" "$code" || said="$said, but without $each"
            done
            ;;
        esac
        case $said in
        *" good") passed=$((passed + 1)) ;;
        *)
            echo "$name: $said"
            failed=$((failed + 1))
            ;;
        esac
    done
}

# ask_for NAME POSE TARGET...: the same, if one of the targets is selected
targets=$*
ask_for() {
    name=$1 pose=$2
    shift 2
    for each; do
        case " $targets " in
        *" $each "*)
            ask "$name" "$pose"
            return
            ;;
        esac
    done
}
ask_for mma compute=80,local=49152 nvptx sm_80 &
ask_for mma8 compute=75 nvptx sm_80 &
wait
ask_for wmma gfx=11,wave=32 gfx1100 &
ask_for mfma gfx=9,wave=64 gfx90a &
wait
ask_for dpas dpas=8 dg2 &
ask_for dpas16 dpas=16 pvc &
wait
ask_for rdna2 gfx=10,wave=32 gfx1030

# bytes TARGET NAME INSTRUCTION: checks the int8 GEMM kernels
bytes() {
    judge "$1" "$2" 7 "$3" gemm_int8_gpu_skinny
    judge "$1" "$2" 4 "$3" gemm_int8_gpu_tile
}
for target; do
    case $target in
    nvptx | sm_80)
        mma='mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(f16\.f16|bf16\.bf16)\.f32'
        judge "$target" mma 8 "$mma" gemm_mma
        export GPU_MOST_LOCAL=49152
        # On an H100 the local memory offset of the multistage buffers decides the speed.
        judge "$target" mma 6 "$mma cp\.async\.cg ldmatrix\.sync shared.*\.align.128" gemm_mma_multistage
        # Large attention tiles of such GPUs for long sequences: queries stay in local memory.
        judge "$target" mma 10 'fma\.rn\.f32' attention_tiled
        unset GPU_MOST_LOCAL
        judge "$target" mma 9 'fma\.rn\.f32' attention_backward_tiled
        judge "$target" mma8 6 'mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.f16\.f16\.f32' gemm_mma
        bytes "$target" mma 'dp4a\.s32\.s32'
        ;;
    gfx90a)
        judge "$target" mfma 8 'v_mfma_f32_16x16x16_?b?f16' gemm_mma
        bytes "$target" mfma 'v_dot4c?_i32_i8'
        ;;
    gfx1030) bytes "$target" rdna2 'v_dot4c?_i32_i8' ;;
    gfx1100)
        judge "$target" wmma 8 'v_wmma_f32_16x16x16_b?f16' gemm_mma
        bytes "$target" wmma v_dot4_i32_iu8
        ;;
    dg2) judge "$target" dpas 8 'dpas\.8x8 \(8\|M0\).*:(hf|bf) .*:(hf|bf) ' gemm_mma ;;
    pvc) judge "$target" dpas16 8 'dpas\.8x8 \(16\|M0\).*:(hf|bf) .*:(hf|bf) ' gemm_mma ;;
    *)
        echo "$target has no known MMA instruction"
        failed=$((failed + 1))
        ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
