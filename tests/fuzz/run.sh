# Fuzzes every reader for a while (fuzz.h).
#     sh tests/fuzz/run.sh SECONDS [TARGET...]
# TFM_FUZZ_BUILD: a build folder with fuzzers, such as build/sanitized. Without it they are built in build/fuzz: with
# clang's libFuzzer (coverage-guided) if available, else with gcc.
# Prints one line for each target; the exit code is 1 if one fails. The failing input is build/fuzz-found/crash-...:
# copy it to tests/fuzz/seeds/TARGET when the reader is fixed.
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
[ -x "$fuzz" ] || { say "$fuzz does not exist: build it with -Dtests=true"; exit 1; }

# join OUT FILE...: concatenates files with a NUL between them
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
# older FOLDER NAME...: for each tokenizer with these files: its configuration, a text and the files
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
# seeds TARGET: fills a folder for the target with files of other tests
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
    adapter)
        python3 "$root/tests/apps/make_adapter.py" "$golden/reranker_qwen3" 'q_proj' "$into.lora" &&
            join "$into/one" "$into.lora/adapter_config.json" "$into.lora/adapter_model.safetensors"
        rm -rf "$into.lora"
        ;;
    packed)
        python3 - "$into" <<'END'
import json
import struct
import sys

K, N, G = 64, 16, 32
FORMS = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": G},
             {"qweight": ("I32", [K // 8, N]), "scales": ("F16", [K // G, N]), "qzeros": ("I32", [K // G, N // 8]),
              "g_idx": ("I32", [K])}),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": G},
            {"qweight": ("I32", [K, N // 8]), "scales": ("F16", [K // G, N]), "qzeros": ("I32", [K // G, N // 8])}),
    "rows": ({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
                 "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": G}}}},
             {"weight_packed": ("I32", [N, K // 8]), "weight_scale": ("BF16", [N, K // G]),
              "weight_zero_point": ("I32", [N // 8, K // G]), "weight_g_idx": ("I32", [K]),
              "weight_shape": ("I64", [2])}),
}
SIZES = {"I32": 4, "I64": 8, "F16": 2, "BF16": 2}
for name, (config, tensors) in FORMS.items():
    header, data = {}, b""
    for tensor, (dtype, shape) in tensors.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        if tensor == "weight_shape":
            values = struct.pack("<2q", N, K)
        elif tensor.endswith("g_idx"):
            values = struct.pack(f"<{K}i", *(k % 2 for k in range(K)))
        else:
            values = bytes(i * 37 % 60 for i in range(count * SIZES[dtype]))
        header[f"m.{tensor}"] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{sys.argv[1]}/{name}", "wb") as out:
        out.write(json.dumps({"quantization_config": config}).encode() + b"\0" + struct.pack("<Q", len(text)) + text + data)
END
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
        join "$into/colbert" "$golden/colbert/modules.json" "$golden/embedder/1_Pooling/config.json" \
            "$golden/colbert/1_Dense/config.json" "$golden/colbert/sentence_bert_config.json" \
            "$golden/colbert/config_sentence_transformers.json"
        ;;
    spm) for model in "$golden"/*norm*; do cp "$model/source.spm" "$into/$(basename "$model")"; done ;;
    lines) cp "$root/apps/demo/beam4.scores" "$root/apps/demo/test.de" "$into" ;;
    conversation)
        echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [{"a": 1}]}' >"$into/messages"
        echo '{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}' >"$into/sharegpt"
        echo '{"instruction": "a", "input": "b", "output": "c", "system": "d"}' >"$into/alpaca"
        echo '{"prompt": "a", "completion": "b"}' >"$into/completion"
        echo '{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}' >"$into/lists"
        ;;
    chat)
        python3 - "$golden/jinja.json" "$into" <<'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    data = json.load(file)
texts = [each["template"] for each in data["templates"]] + [each[0] for each in data["snippets"][::8]]
for number, text in enumerate(texts):
    with open(f"{sys.argv[2]}/{number}", "w", encoding="utf-8") as out:
        out.write(text)
END
        ;;
    words | tokens) cp "$root/apps/demo/test.de" "$golden/untied-gelu-bf16/test.src" "$into" ;;
    metrics) join "$into/demo" "$root/apps/demo/beam4.en" "$root/apps/demo/greedy.en" "$golden/untied-gelu-bf16/greedy.txt" ;;
    recipe) cp "$root/apps/demo/recipe.json" "$into" ;;
    reports) head -n 40 "$root/apps/demo/train.jsonl" >"$into/demo" ;;
    esac
    # Seeds from the target itself, handmade ones, and former crashes.
    TFM_FUZZ=$1 TFM_FUZZ_SEED="$into/own" "$fuzz" || say "$1: cannot write its seed"
    if [ -d "$root/tests/fuzz/seeds/$1" ]; then
        cp "$root/tests/fuzz/seeds/$1"/* "$into"
    fi
}

# One OpenCL driver is enough. lsan.supp names drivers with memory that lives until exit; but Mesa's are unloaded before
# the leak check, and then their leaks cannot be matched by name.
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
    # A thread reads the training text ahead. A leak check at that moment may report data in transfer, which is not
    # reproducible, so these two targets have one leak check, at exit.
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
