# How to compile a program for each target, and how to find faults in the result; for judge.sh.
# Each target has two functions: have_TARGET prints why it cannot be done on this machine, or nothing; build_TARGET
# compiles $program with $options to $out.s or $out.spv or $out.bin, with errors in $out.log.
TARGETS="nvptx sm_80 gfx90a gfx1030 gfx1100 gfx1201 spirv dg2 gen9"

# The compiler of Debian 12; gfx1201 needs LLVM 19.
clang=${GPU_CLANG:-clang-15}
clang_new=${GPU_CLANG_NEW:-clang-19}
libclc=/usr/lib/clc
most_local=${GPU_MOST_LOCAL:-32768}

lacks() {
    for tool; do
        command -v "$tool" >/dev/null || [ -e "$tool" ] || echo "$tool is not installed"
    done
}
# opencl COMPILER OPTION...
opencl() {
    # shellcheck disable=SC2086 # words
    "$@" -x cl $options -w -Wno-linker-warnings "$program" 2>"$out.log"
}

# NVIDIA: LLVM's back end to PTX, then the assembler of a CUDA toolkit if there is one.
have_nvptx() {
    lacks "$clang" "$libclc/nvptx64--nvidiacl.bc"
    case $options in
    *TFM_HAS_FP16* | *TFM_HAS_SUBGROUPS*) echo "NVIDIA's driver has neither cl_khr_fp16 nor cl_khr_subgroups" ;;
    esac
}
build_nvptx() {
    opencl "$clang" -O3 --target=nvptx64--nvidiacl -march=sm_80 -Xclang -mlink-builtin-bitcode \
        -Xclang "$libclc/nvptx64--nvidiacl.bc" -S -o "$out.s"
}
wrong_nvptx() {
    sed -n 's/.*__local_depot[0-9]*\[\([0-9]*\)\].*/a private array of \1 bytes in memory/p
        s/^[.a-z ]*\.extern .*\.func.*/calls an undefined function/p' "$out.s"
    sed -n 's/^.*\.shared .*\[\([0-9]*\)\];/\1/p' "$out.s" | awk '{ sum += $1 } END { print sum + 0 }' >"$out.local"
}
have_sm_80() {
    have_nvptx
    lacks ptxas
}
build_sm_80() {
    build_nvptx && ptxas -v -arch=sm_80 "$out.s" -o "$out.bin" 2>>"$out.log"
}
wrong_sm_80() {
    wrong_nvptx
    grep -oE '[1-9][0-9]* bytes spill (stores|loads)' "$out.log"
}

# AMD: LLVM's back end, without the pass that moves private arrays to local memory. Spilled scalar registers go to lanes
# of vector registers, so only spilled vector registers count. Scratch counts only if the kernel accesses it, because
# LLVM 19 may reserve it for scalar registers that went to lanes.
amd() {
    opencl "$1" -O3 --target=amdgcn-amd-amdhsa -nogpulib "-mcpu=$2" -mllvm -disable-promote-alloca-to-lds -Xclang \
        -mlink-builtin-bitcode -Xclang "$libclc/amdgcn--amdhsa.bc" -S -o "$out.s"
}
have_amd() {
    lacks "$1" "$libclc/amdgcn--amdhsa.bc"
    case $options in
    *TFM_HAS_SUBGROUPS*) echo "libclc has no sub-groups for AMD" ;;
    esac
}
wrong_amd() {
    awk '/^[ \t]*(scratch|buffer|flat)_(load|store|atomic)/ { reached = 1 }
        /^; ScratchSize: / {
            if ($3 > 0 && reached)
                print $3 " bytes of scratch: a private array, or spills"
            reached = 0
        }' "$out.s"
    sed -n 's/^ *\.vgpr_spill_count: *\([1-9][0-9]*\)/\1 registers spilled/p
        s/^.*s_swappc.*/calls an undefined function/p' "$out.s"
    sed -n 's/^; LDSByteSize: \([0-9]*\).*/\1/p' "$out.s" | sort -n | tail -n 1 >"$out.local"
}
for gpu in gfx90a gfx1030 gfx1100; do
    eval "have_$gpu() { have_amd $clang; }
        build_$gpu() { amd $clang $gpu; }
        wrong_$gpu() { wrong_amd; }"
done
have_gfx1201() { have_amd "$clang_new"; }
build_gfx1201() { amd "$clang_new" gfx1201; }
wrong_gfx1201() { wrong_amd; }

# SPIR-V 1.2, for drivers without an OpenCL C front end.
have_spirv() { lacks "$clang" llvm-spirv-15 spirv-val; }
build_spirv() {
    opencl "$clang" -O1 --target=spir64-unknown-unknown -Xclang -disable-llvm-passes -emit-llvm -c -o "$out.bc" &&
        llvm-spirv-15 --spirv-max-version=1.2 "$out.bc" -o "$out.spv" 2>>"$out.log" &&
        spirv-val --target-env opencl2.2 "$out.spv" 2>>"$out.log"
}
wrong_spirv() { :; }

# Intel: its offline compiler, unpacked in the folder GPU_INTEL if set.
have_intel() {
    (intel_path && lacks ocloc python3)
}
intel_path() {
    [ ! "${GPU_INTEL:-}" ] || {
        PATH="$GPU_INTEL/usr/bin:$PATH"
        export LD_LIBRARY_PATH="$GPU_INTEL/usr/lib/x86_64-linux-gnu:$GPU_INTEL/usr/lib/x86_64-linux-gnu/intel-opencl"
    }
}
intel() {
    (
        intel_path
        rm -rf "$out.intel"
        mkdir "$out.intel"
        ocloc compile -file "$program" -device "$1" -options "$options" -out_dir "$out.intel" -output k >"$out.log" 2>&1 &&
            mv "$out.intel"/k_*.bin "$out.bin"
    )
}
wrong_intel() {
    python3 "$here/intel_scratch.py" "$out.bin"
}
# The library detects Intel devices and requests other programs for them.
# shellcheck disable=SC2034 # check.sh has them
pose_dg2=intel=1,dpas=8,group=1024,local=65536,fp16=1,subgroups=1
# shellcheck disable=SC2034
pose_gen9=intel=1,group=256,local=65536,fp16=1,subgroups=1
have_dg2() { have_intel; }
build_dg2() { intel dg2; }
wrong_dg2() { wrong_intel; }
have_gen9() { have_intel; }
build_gen9() { intel skl; }
wrong_gen9() { wrong_intel; }
# Only for engines.sh.
have_pvc() { have_intel; }
build_pvc() { intel pvc; }
wrong_pvc() { wrong_intel; }

# Disassembles to $out.s: `ocloc disasm` loads a library by a name that Debian has only in the -dev package.
iga=${GPU_INTEL:-}/usr/lib/x86_64-linux-gnu/libiga64.so.1
intel_words() {
    (
        intel_path
        ln -sf "$iga" "$out.intel/libiga64.so"
        LD_LIBRARY_PATH="$out.intel${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ocloc disasm -file "$out.bin" -device "$1" \
            -dump "$out.intel/words" >>"$out.log" 2>&1 && cat "$out.intel/words"/*.asm >"$out.s"
    )
}
