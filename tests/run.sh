# Everything, from a bare Debian machine: installs what is missing, builds with warnings as errors, runs all tests on
# PoCL and what computes on llvmpipe too, all again under the address and undefined-behaviour sanitizers, and builds
# the examples against the installed library.
#     sh tests/run.sh
# Ends with a line "N passed, N failed, N skipped"; the exit code says whether all is well.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/build
start=$(date +%s)

say() {
    echo "== $(($(date +%s) - start)) s: $*"
}
die() {
    say "$*"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

sh apps/packages.sh gcc g++ make meson ninja-build pkg-config ocl-icd-opencl-dev opencl-headers libclblast-dev \
    libsentencepiece-dev libjansson-dev libicu-dev libcmocka-dev libprotobuf-c-dev protobuf-c-compiler pocl-opencl-icd \
    mesa-opencl-icd libcairo2-dev fonts-dejavu-core ||
    die "the packages cannot be installed"

mkdir -p "$build"
counts=$build/counts
: >"$counts"
unset TFM_DEVICE TFM_GEMM TFM_LOG TFM_CL_DIR TFM_PROFILE RUSTICL_ENABLE
export TFM_CACHE_DIR="$build/cache/tfm" POCL_CACHE_DIR="$build/cache/pocl"
rm -rf "$build/cache"
mkdir -p "$POCL_CACHE_DIR"

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
# count_one NAME COMMAND...: one check of its own
count_one() {
    name=$1
    shift
    if "$@" >"$build/last.log" 2>&1; then
        echo "1 0 0" >>"$counts"
    else
        echo "0 1 0" >>"$counts"
        echo "$name: failed: $*"
        tail -n 20 "$build/last.log"
    fi
}
# suite LABEL FOLDER ARGUMENT...: meson test, counted by cases
suite() {
    label=$1 folder=$2
    shift 2
    say "testing: $label"
    rm -f "$build/$folder/meson-logs/$label.json"
    meson test -C "$build/$folder" --no-rebuild --logbase "$label" "$@"
    code=$?
    tally=$(python3 tests/tally.py "$label" "$build/$folder/meson-logs/$label.json") || tally="0 1 0"
    case $tally in
    *" 0 "*) [ $code = 0 ] || echo "0 1 0" >>"$counts" ;; # Meson knows of a failure that the log does not tell
    esac
    echo "$tally" >>"$counts"
}

say "building"
configure check -Dwerror=true -Dprefix="$build/install" -Dlibdir=lib
configure sanitized -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false
ninja -C "$build/check" --quiet || die "it does not build"

# Most of a test's time goes into compilers that take one core. So what needs another build, or another platform, uses the
# other, in the background. Clover, which comes with llvmpipe, crashes under the sanitizers: PoCL alone is shown.
sanitized() {
    mkdir -p "$build/vendors"
    if ! cp /etc/OpenCL/vendors/pocl.icd "$build/vendors/" || ! ninja -C "$build/sanitized" -j 1 --quiet; then
        echo "0 1 0" >>"$counts"
        return
    fi
    export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0"
    export OCL_ICD_VENDORS="$build/vendors" TFM_DEVICE=pocl
    # First what compiles little: by the time of the rest, PoCL's cache has CLBlast's kernels from the other suite.
    suite sanitized-host sanitized --suite host
    suite sanitized-device sanitized --suite device
}
llvmpipe() {
    export RUSTICL_ENABLE=llvmpipe TFM_DEVICE=llvmpipe
    if "$build/check/apps/tfm" selftest; then
        suite llvmpipe check --suite device
    else
        echo "0 0 1" >>"$counts"
        say "llvmpipe does not run here: skipped"
    fi
}
{
    (sanitized) >"$build/sanitized.log" 2>&1
    (llvmpipe) >"$build/llvmpipe.log" 2>&1
} &
others=$!

TFM_DEVICE=pocl suite pocl check --no-suite long
TFM_DEVICE=pocl TFM_GEMM=clblast suite clblast check model
wait $others
cat "$build/sanitized.log" "$build/llvmpipe.log"
TFM_DEVICE=pocl suite long check --suite long # within three minutes, by both cores

say "installing"
rm -rf "$build/install"
count_one "install" ninja -C "$build/check" --quiet install
export PKG_CONFIG_PATH="$build/install/lib/pkgconfig" LD_LIBRARY_PATH="$build/install/lib"
for example in translate train attention self_attention own_buffers number_words; do
    # shellcheck disable=SC2046 # words
    count_one "example $example" cc -std=c11 -Wall -Wextra -Werror "apps/examples/$example.c" \
        $(pkg-config --cflags --libs tfm OpenCL) -o "$build/example_$example"
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
count_one "numbers in words are learned" sh tests/numbers.sh "$build/check/apps/tfm" "$build/numbers" "$build/numbers-run"
count_one "a picture" "$build/check/apps/tfm" attend -m apps/demo "Danke." -o "$build/attention.svg"
count_one "the installed program" "$build/install/bin/tfm" info apps/demo
count_one "its page" test -s "$build/install/share/man/man1/tfm.1"
count_one "hidden symbols stay hidden" sh -c \
    "! nm -D --defined-only '$build/install/lib/libtfm.so' | grep -vE ' (tfm_[a-z0-9_]*|_init|_fini)$'"

say "done"
awk '{ passed += $1; failed += $2; skipped += $3 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || passed == 0 }' "$counts"
