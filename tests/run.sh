# All tests of a commit, from a bare Debian machine: installs missing packages; builds with warnings as errors; runs all
# tests on PoCL, some ops and a model on llvmpipe, the suite `rows` (ops as on a GPU, with work-groups that share a
# row), a model with CLBlast; builds programs for GPUs and CPUs that are not installed; runs `host` and some ops and
# layers under the address and undefined-behavior sanitizers, with a second of fuzzing for each reader; builds the
# examples against the installed library.
#     sh tests/run.sh
# The last line is "N passed, N failed, N skipped"; the exit code is 1 if something failed.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/build
start=$(date +%s)
mkdir -p "$build"

say() {
    echo "== $(($(date +%s) - start)) s: $*"
}
die() {
    say "$*"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

sh apps/packages.sh gcc g++ dpkg-dev clang-format make meson ninja-build pkg-config ocl-icd-opencl-dev opencl-headers \
    libclblast-dev libsentencepiece-dev libjansson-dev libyaml-dev libmicrohttpd-dev libcurl4-openssl-dev nettle-dev libedit-dev libcld2-dev libgumbo-dev libmd4c-dev libopenmpi-dev openmpi-bin curl \
    libicu-dev libpcre2-dev libcmocka-dev libprotobuf-c-dev protobuf-c-compiler pocl-opencl-icd mesa-opencl-icd \
    libcairo2-dev fonts-dejavu-core librsvg2-bin cmake python3 python3-venv clang-15 libclc-15 llvm-15 \
    llvm-spirv-15 spirv-tools ||
    die "the packages cannot be installed"

. tests/suites.sh
counts=$build/counts
: >"$counts"
unset TFM_DEVICE TFM_GEMM TFM_LOG TFM_CL_DIR TFM_PROFILE RUSTICL_ENABLE
export TFM_MEGAKERNEL=0 # linking takes seconds for each model; test_megakernel and nightly.sh have it
export TFM_CACHE_DIR="$build/cache/tfm" POCL_CACHE_DIR="$build/cache/pocl"
export TFM_TEST_BINARIES="$TFM_CACHE_DIR" # for tests with many contexts or faults, which have private caches
rm -rf "$build/cache"
mkdir -p "$POCL_CACHE_DIR"
export MESA_SHADER_CACHE_DIR="$build/cache/mesa" # llvmpipe must take as long as on a new machine

# configure FOLDER OPTION...
configure() {
    folder=$build/$1
    shift
    if [ -f "$folder/build.ninja" ]; then
        meson configure "$folder" "$@" >/dev/null
    else
        meson setup "$folder" "$@" >/dev/null
    fi || die "meson cannot configure $folder"
}
# count_one NAME COMMAND...: a single check
count_one() {
    name=$1
    shift
    if "$@" >"$build/jobs/last-$job" 2>&1; then
        echo "1 0 0" >>"$counts"
    else
        echo "0 1 0" >>"$counts"
        echo "$name: failed: $*"
        tail -n 20 "$build/jobs/last-$job"
    fi
}
# count_perhaps NAME COMMAND...: the same, for commands that exit with 77 if they lack something, named in their last
# line
count_perhaps() {
    name=$1
    shift
    "$@" >"$build/jobs/last-$job" 2>&1
    case $? in
    0) echo "1 0 0" >>"$counts" ;;
    77) echo "0 0 1" >>"$counts" && tail -n 1 "$build/jobs/last-$job" ;;
    *) echo "0 1 0" >>"$counts" && echo "$name: failed" && tail -n 40 "$build/jobs/last-$job" ;;
    esac
}

# Three jobs run at a time, each with processes for half of the cores, so that cores that one job leaves idle serve
# another. A finished worker takes the next job of the list. The output of a job is printed when it ends.
lane() {
    for job in $jobs; do
        mkdir "$build/jobs/$job" 2>/dev/null || continue # taken
        say "start: $job"
        (
            "job_$job" || echo "0 1 0" >>"$counts"
            times >"$build/jobs/$job/times"
        ) >"$build/jobs/$job/log" 2>&1 </dev/null
        [ -f "$build/jobs/$job/times" ] || echo "0 1 0" >>"$counts" # it was interrupted
        flock "$build/jobs" cat "$build/jobs/$job/log"
        say "done: $job, after $(awk 'NR == 2 { split($1, u, "m"); split($2, s, "m")
            print int(60 * (u[1] + s[1]) + u[2] + s[2]) }' "$build/jobs/$job/times") s of CPU time"
    done
}

# PoCL's compiler takes most of the time. All runs on PoCL share its own cache, so everything is compiled once;
# concurrent jobs rarely need the same kernels. The library's binary cache is off for programs that run once, because
# PoCL compiles every kernel again for arbitrary group sizes to return a binary. Scripts and fault injection tests start
# the program hundreds of times, so they have a cache; tests/dev/test_cache.c and tests/apps/cache.sh test it. Scripts
# that train, export or tune let PoCL compile without optimization, with a separate binary cache. Only the suite
# `optimized`, models and trainers, lets PoCL optimize (nightly.sh: all); it runs most kernels that users see.
# nightly.sh runs what measures seconds or bytes, with no other load.
job_pocl() {
    export TFM_CACHE_DIR=off
    POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable suite pocl-unoptimized "$build/check" --suite device --no-suite optimized
    suite pocl "$build/check" --suite optimized --suite optimized-rows --no-suite measuring
}
# PoCL compiles GPU kernels in a quarter of the time without optimization. nightly.sh runs the optimized rows.
job_rows() {
    POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable TFM_CACHE_DIR=off suite rows "$build/check" --suite rows
}
job_scripts() {
    # They start the program hundreds of times, and each start would load every driver.
    export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
    suite scripts "$build/check" --suite scripts --no-suite long-scripts
}
job_faults() {
    suite faults "$build/check" --suite unsanitized
}
job_clblast() {
    TFM_CACHE_DIR=off TFM_GEMM=clblast suite clblast "$build/check" score_texts translation
}
# Only the tests run under sanitizers here are built; nightly.sh builds the rest.
sanitized_host="--suite host --no-suite unsanitized --no-suite scripts"
sanitized_device="conformance onnx tape nn block torch_layers decoder_configs languages kv_half fused_linear examples \
    gemm_backward cross_entropy topk"
job_sanitized_build() {
    # Optimization and full debug information would triple the compile time of sanitized code.
    (configure sanitized -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=0 -Dc_args=-g1 \
        -Dcpp_args=-g1) || return
    # shellcheck disable=SC2046,SC2086 # words
    ninja -C "$build/sanitized" -j "$each" --quiet tests/fuzz/fuzz \
        $(python3 tests/needed.py "$build/sanitized" $sanitized_host) \
        $(python3 tests/needed.py "$build/sanitized" $sanitized_device) && touch "$build/jobs/sanitized_build/built"
}
# sanitized: waits for the sanitized build, and sets the environment of its programs
sanitized() {
    while [ ! -f "$build/jobs/sanitized_build/built" ]; do
        [ ! -f "$build/jobs/sanitized_build/times" ] || return # the build failed
        sleep 1
    done
    sanitizer_environment
}
job_sanitized_host() {
    # shellcheck disable=SC2086 # words
    sanitized && suite sanitized-host "$build/sanitized" $sanitized_host --wrapper "$wrapper"
}
job_sanitized_device() {
    # shellcheck disable=SC2086 # words
    sanitized && POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable TFM_CACHE_DIR=off suite sanitized-device "$build/sanitized" \
        $sanitized_device --wrapper "$wrapper"
}
# A second for each reader finds most of what ten minutes find; nightly.sh takes longer.
job_fuzzers() {
    sanitized && TFM_FUZZ_BUILD="$build/sanitized" count_one "fuzzers" sh tests/fuzz/run.sh 1
}
job_llvmpipe() {
    export RUSTICL_ENABLE=llvmpipe TFM_DEVICE=llvmpipe
    if "$build/check/apps/tfm" devices --json | grep -q '"name": *"llvmpipe'; then
        # Ops and one model; nightly.sh runs more, the self-test, and what takes long to compile.
        suite llvmpipe "$build/check" --suite device --no-suite models --no-suite unoptimized --no-suite long-emulated
        suite llvmpipe-some "$build/check" score_texts
    else
        echo "0 0 1" >>"$counts"
        echo "llvmpipe is not installed: skipped"
    fi
}
# For CPUs and GPUs that are not installed: the programs of common models, some variants of each, built for three GPUs.
# nightly.sh builds the rest.
job_gpu() {
    part sh tests/gpu/cpus.sh "$build/check"
    export TFM_POSE_TESTS="test_trainer test_attention_maps test_model test_binary test_reduce test_tensor_views" \
        TFM_POSES=group=1024,local=65536,unbuilt=1
    TFM_GPU_MOST=2 part sh tests/gpu/check.sh "$build/check" gfx1100
    TFM_GPU_MOST=1 TFM_GPU_PROGRAMS="$build/check/gpu/programs" part sh tests/gpu/check.sh "$build/check" nvptx spirv
    part sh tests/gpu/engines.sh "$build/check" nvptx gfx90a gfx1100
    count_one "figures of kernels on gfx1100" python3 tests/gpu/figures.py check "$build/check/gpu" gfx1100
}
# The tests of the Python package need packages from PyPI.
job_python() {
    count_perhaps "Python" sh apps/python/tests/run.sh "$build/check" "$build/python"
}
job_installing() {
    unset TFM_DEVICE
    rm -rf "$build/install"
    count_one "install" ninja -C "$build/check" --quiet install
    export PKG_CONFIG_PATH="$build/install/lib/pkgconfig"
    unset LD_LIBRARY_PATH # installed programs must not need it
    for example in translate train attention self_attention own_buffers number_words; do
        # shellcheck disable=SC2046 # words
        count_one "example $example" cc -std=c11 -Wall -Wextra -Werror "$build/install/share/doc/tfm/examples/$example.c" \
            $(pkg-config --cflags --libs tfm OpenCL) -Wl,-rpath,"$(pkg-config --variable=libdir tfm)" -o "$build/example_$example"
    done
    count_one "the translation of an example" sh -c \
        "'$build/example_translate' apps/demo \"\$(sed -n 6p apps/demo/test.de)\" | tee /dev/stderr |
         grep -qxF \"\$(sed -n 6p apps/demo/beam4.en)\""
    count_one "the attention of an example" sh -c "'$build/example_attention' | tee /dev/stderr | grep -q '^1.00[0-9] '"
    count_one "the tutorial of self-attention" sh -c \
        "'$build/example_self_attention' | tee /dev/stderr | grep -q '1.93662   6.68310   1.59507'"
    count_one "the example with own buffers" sh -c \
        "'$build/example_own_buffers' | tee /dev/stderr | grep -qx '0.03206 0.08714 0.23688 0.64391'"
    count_one "the numbers of an example" sh -c \
        "'$build/example_number_words' '$build/numbers' && grep -qx null '$build/numbers/train.de'"
    count_one "the training of an example" sh -c \
        "'$build/example_train' '$build/example-model' '$build/numbers/train.de' '$build/numbers/train.en' 300 vierhundertelf |
         tee /dev/stderr | grep -qx 'four hundred and eleven'"
    count_one "a picture" "$build/check/apps/tfm" attention -m apps/demo "Danke." -o "$build/attention.svg"
    count_one "the installed program" "$build/install/bin/tfm" info "$build/install/share/tfm/demo"
    rm -rf "$build/moved"
    mv "$build/install" "$build/moved"
    count_one "the installed program after its prefix has moved" "$build/moved/bin/tfm" info "$build/moved/share/tfm/demo"
    mv "$build/moved" "$build/install"
    count_perhaps "a consumer" sh tests/consumer.sh "$build/install" "$build/consumer"
    count_one "the links of READMEs and documentation" sh tests/links.sh README.md include/README.md lib/README.md \
        apps/*/README.md apps/docs/*.md tests/golden/README.md
    count_one "the links of the installed README and documentation" sh tests/links.sh \
        "$build/install/share/doc/tfm/README.md" "$build/install/share/doc/tfm/docs/"*.md
    count_one "the links of the documentation for contributors" \
        sh tests/links.sh lib/docs/*.md cl/README.md tests/README.md tests/gpu/README.md .github/*.md
    count_one "its license" cmp LICENSE "$build/install/share/doc/tfm/LICENSE"
    count_one "pkg-config names OpenCL for static linking" sh -c "pkg-config --print-requires-private tfm | grep -qx OpenCL"
    count_one "its page" test -s "$build/install/share/man/man1/tfm.1"
    count_one "hidden symbols stay hidden" sh -c \
        "! nm -D --defined-only '$build/install/lib/libtfm.so' | grep -vE ' (tfm_[a-z0-9_]*|_init|_fini)$'"
}

rm -rf "$build/jobs"
mkdir "$build/jobs"
export TFM_DEVICE=pocl TFM_BRIEF=1 # nightly.sh runs most shapes of the slowest tests
cores=$(nproc)
each=$(((cores + 1) / 2)) # processes for each job
export MESON_TESTTHREADS="$each"

say "building"
command -v ld.gold >/dev/null && export CC_LD=gold CXX_LD=gold # faster for hundreds of programs
configure check -Dwerror=true -Dprefix="$build/install" -Dlibdir=lib -Dc_args=-g1 -Dcpp_args=-g1
ninja -C "$build/check" --quiet || die "it does not build"

# The longest jobs first; users of the sanitized build after it; jobs that compile training kernels before
# sanitized programs need them, in which the compiler takes twice as long. The shortest last, so that no core idles at
# the end.
jobs="pocl sanitized_build scripts faults rows llvmpipe sanitized_host gpu python sanitized_device installing fuzzers
    clblast"
lane &
lane &
lane
wait

say "done"
report
