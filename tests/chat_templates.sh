# Chat templates of llama.cpp (PyPI's source distribution of llama-cpp-python 0.3.36, MIT, fetched, not installed),
# rendered for nine conversations, and random expressions of Jinja: each text is transformers', or refused.
#     sh tests/chat_templates.sh LIBTFM FOLDER      FOLDER caches the archive
# TFM_PYTHON: a Python with transformers, default python3. The last line is "N passed, N failed, N skipped".
set -u
library=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
python=${TFM_PYTHON:-python3}
skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

"$python" -c 'import jinja2, transformers' 2>/dev/null || skip "$python has no transformers"
archive=$folder/llama_cpp_python-0.3.36.tar.gz
[ -f "$archive" ] || "$python" -m pip download --quiet --no-deps --no-binary :all: --dest "$folder" llama-cpp-python==0.3.36 \
    >"$folder/pip.log" 2>&1
[ -f "$archive" ] || skip "llama-cpp-python cannot be fetched from PyPI ($(tail -n 1 "$folder/pip.log"))"
rm -rf "$folder/templates"
mkdir "$folder/templates"
tar -xzf "$archive" -C "$folder/templates" --strip-components 5 --wildcards '*/vendor/llama.cpp/models/templates/*.jinja' ||
    skip "the archive has no templates"
TZ=UTC "$python" "$here/chat_templates.py" "$library" "$folder/templates"
