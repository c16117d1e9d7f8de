# Grammars and JSON schemas of constrained decoding: the JSON-Schema-Test-Suite (in PyPI's source distribution of
# jsonschema 4.26.0, MIT, fetched, not installed), random texts by the masks of vocabularies, and masks of llguidance.
#     sh tests/grammar.sh LIBTFM GRAMMAR_WALK FOLDER [VOCABULARY...]      FOLDER caches the archive
# TFM_PYTHON: a Python with jsonschema, and perhaps llguidance, default python3. VOCABULARY: further tokenizer
# directories and GGUF files. The last line is "N passed, N failed, N skipped".
set -u
library=$(realpath "$1")
walk=$(realpath "$2")
mkdir -p "$3"
folder=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
python=${TFM_PYTHON:-python3}
shift 3
skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

"$python" -c 'import jsonschema' 2>/dev/null || skip "$python has no jsonschema"
archive=$folder/jsonschema-4.26.0.tar.gz
[ -f "$archive" ] || "$python" -m pip download --quiet --no-deps --no-binary :all: --dest "$folder" jsonschema==4.26.0 \
    >"$folder/pip.log" 2>&1
[ -f "$archive" ] || skip "jsonschema cannot be fetched from PyPI ($(tail -n 1 "$folder/pip.log"))"
"$python" "$here/grammar.py" "$library" "$walk" "$archive" "$here/golden/tokenizers/gpt2" \
    "$here/golden/tokenizers/llama2" "$@"
