# Gives every reader damaged files for a while: fuzz.h.
#     sh tests/fuzz/run.sh SECONDS [TARGET...]
# TFM_FUZZ_BUILD is a build folder whose fuzzers are taken, such as build/sanitized. Without it they are built in
# build/fuzz: with clang's libFuzzer, which looks for new ways through the code, where clang has that, else with gcc.
# A line for each target; the exit code says whether all is well. What broke one is in build/fuzz-found/crash-...: put it
# into tests/fuzz/seeds/TARGET when the reader is mended.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
seconds=${1:?give the seconds for each target}
shift
build=${TFM_FUZZ_BUILD:-}
found=$root/build/fuzz-found
corpus=$root/build/fuzz-seeds
mkdir -p "$found" "$corpus"

say() {
    echo "# $*"
}

if [ -z "$build" ]; then
    build=$root/build/fuzz
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; return n > 1000000; }' >"$corpus/probe.c"
    if [ -f "$build/build.ninja" ]; then
        :
    elif command -v clang >/dev/null && clang -fsanitize=fuzzer,address "$corpus/probe.c" -o "$corpus/probe" 2>/dev/null; then
        CC=clang CXX=clang++ meson setup "$build" -Db_sanitize=address,undefined -Db_lundef=false -Dlibfuzzer=true \
            -Dc_args=-fsanitize=fuzzer-no-link -Dcpp_args=-fsanitize=fuzzer-no-link >/dev/null || exit 1
    else
        meson setup "$build" -Db_sanitize=address,undefined -Db_lundef=false >/dev/null || exit 1
    fi
    ninja -C "$build" --quiet tests/fuzz/fuzz || exit 1
fi
fuzz=$build/tests/fuzz/fuzz
[ -x "$fuzz" ] || { say "$fuzz is not there: build it with -Dtests=true"; exit 1; }

# join OUT FILE...: files with a NUL between them, as a target takes several
join() {
    out=$1
    shift
    cat "$1" >"$out"
    shift
    for file; do
        { printf '\0'; cat "$file"; } >>"$out"
    done
}
line="I'm <mask> naïve in ﬁve 日本 harbours."
# older FOLDER NAME...: of each tokenizer that has such files, with its configuration and a text before them
older() {
    older=$1
    shift
    for kind in "$golden"/tokenizers/older_*; do
        if (
            cat "$kind/tokenizer_config.json"
            printf '\0%s' "$line"
            for name; do
                printf '\0'
                # shellcheck disable=SC2086 # a pattern
                if [ "$name" = none ]; then echo '{}'; else cat "$kind"/$name || exit 1; fi
            done
        ) >"$corpus/one" 2>/dev/null; then
            mv "$corpus/one" "$older/$(basename "$kind")"
        fi
    done
}
# seeds TARGET: into a folder of its own, from the files that the other tests have
seeds() {
    into=$corpus/$1
    golden=$root/tests/golden
    rm -rf "$into"
    mkdir -p "$into"
    case $1 in
    safetensors) cp "$golden/prenorm-embedding-norm/model.safetensors" "$into" ;;
    npz) cp "$golden"/npz/*.npz "$into" ;;
    torch | zip) cp "$golden"/torch/*.bin "$into" ;;
    pickle) cp "$golden"/torch/legacy*.bin "$into" ;;
    shards) cp "$golden/torch/pytorch_model.bin.index.json" "$into" ;;
    config)
        for model in "$golden"/*norm* "$golden"/untied*; do
            join "$into/$(basename "$model")" "$model/config.json" "$model/generation_config.json"
        done
        ;;
    vocab)
        echo '{}' >"$corpus/none_added"
        for model in "$golden"/*norm* "$golden"/untied*; do
            join "$into/$(basename "$model")" "$model/vocab.json" "$model/tokenizer_config.json" "$corpus/none_added" \
                "$model/test.src"
        done
        ;;
    tokenizer)
        echo '{"clean_up_tokenization_spaces": true}' >"$corpus/tokenizer_config"
        echo "$line" >"$corpus/line"
        for kind in "$golden"/tokenizers/*/tokenizer.json; do
            join "$into/$(basename "$(dirname "$kind")")" "$corpus/tokenizer_config" "$corpus/line" "$kind"
        done
        ;;
    older_words) older "$into" none none vocab.txt ;;
    older_pairs) older "$into" merges.txt vocab.json ;;
    older_pieces) older "$into" '*.model' ;;
    older_both) older "$into" vocab.json sentencepiece.bpe.model ;;
    model)
        for weights in "$golden"/families/*/model.safetensors; do
            join "$into/$(basename "${weights%/*}")" "${weights%/*}/config.json" "$weights"
        done
        ;;
    modules)
        join "$into/golden" "$golden/embedder/modules.json" "$golden/embedder/1_Pooling/config.json" \
            "$golden/embedder/2_Dense/config.json" "$golden/embedder/0_Transformer/sentence_bert_config.json" \
            "$golden/embedder/config_sentence_transformers.json"
        ;;
    spm) for model in "$golden"/*norm*; do cp "$model/source.spm" "$into/$(basename "$model")"; done ;;
    lines) cp "$root/apps/demo/beam4.scores" "$root/apps/demo/test.de" "$into" ;;
    words | tokens) cp "$root/apps/demo/test.de" "$golden/untied-gelu-bf16/test.src" "$into" ;;
    metrics) join "$into/demo" "$root/apps/demo/beam4.en" "$root/apps/demo/greedy.en" "$golden/untied-gelu-bf16/greedy.txt" ;;
    recipe) cp "$root/apps/demo/recipe.json" "$into" ;;
    reports) head -n 40 "$root/apps/demo/train.jsonl" >"$into/demo" ;;
    esac
    # What the target writes itself, what was made for it, and what once broke it.
    TFM_FUZZ=$1 TFM_FUZZ_SEED="$into/own" "$fuzz" || say "$1: it cannot write its seed"
    if [ -d "$root/tests/fuzz/seeds/$1" ]; then
        cp "$root/tests/fuzz/seeds/$1"/* "$into"
    fi
}

# One OpenCL driver is enough. The leak checker is told which drivers keep what they made for as long as the program
# runs; but Mesa's are unloaded before it looks, and what they kept can no longer be told by their name.
if [ -z "${OCL_ICD_VENDORS:-}" ] && [ -e /etc/OpenCL/vendors/pocl.icd ]; then
    export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
fi
export ASAN_OPTIONS="detect_stack_use_after_return=1:allocator_may_return_null=1:log_path=$found/report"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:log_path=$found/report"
export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0"
export TFM_LOG=error
failed=0
if [ $# = 0 ]; then
    env -u TFM_FUZZ "$fuzz" >"$corpus/targets" || { say "$fuzz cannot list its targets"; exit 1; }
    # shellcheck disable=SC2046 # names
    set -- $(cat "$corpus/targets")
fi
[ $# -gt 0 ] || { say "$fuzz has no targets"; exit 1; }
for target; do
    seeds "$target"
    rm -f "$found"/report.*
    # The training text is read ahead by a thread. A look for leaks while it runs may take for one what it is just handing
    # on, which no run repeats; so for these two there is one look, when the program ends.
    case $target in
    position | checkpoint) leaks=0 ;;
    *) leaks=1 ;;
    esac
    if TFM_FUZZ=$target timeout $((seconds + 600)) "$fuzz" -max_total_time="$seconds" -max_len=65536 -timeout=30 -rss_limit_mb=4096 \
        -detect_leaks=$leaks -artifact_prefix="$found/" "$corpus/$target" >"$found/$target.log" 2>&1; then
        echo "ok - $target: $(grep -aoE '[0-9]+ inputs.*|Done [0-9]+ runs' "$found/$target.log" | tail -n 1)"
    else
        failed=1
        echo "not ok - $target"
        tail -n 5 "$found/$target.log" | sed 's/^/# /'
        cat "$found"/report.* 2>/dev/null | head -n 30 | sed 's/^/# /'
        say "the input: $(ls -t "$found"/crash-* "$found"/timeout-* "$found"/leak-* "$found"/oom-* 2>/dev/null | head -n 1)"
    fi
done
exit $failed
