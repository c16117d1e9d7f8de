# Tokenizers of every kind on real text in more than ten scripts: program messages in all of Django's languages (PyPI's
# django 5.2.8, BSD, fetched, not installed). Tokenizers are trained on them, and token ids and texts are compared with
# the libraries `tokenizers`, `sentencepiece` and transformers.
#     sh tests/tokenizers.sh BUILD/tests/test_hf_tokenizer FOLDER      FOLDER caches the wheel
# TFM_PYTHON: a Python with these libraries, default python3. The last line is "N passed, N failed, N skipped".
set -u
test=$(realpath "$1")
folder=$2
golden=$(dirname "$(realpath "$0")")/golden
python=${TFM_PYTHON:-python3}
mkdir -p "$folder"
skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
failed() {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

"$python" -c 'import tokenizers, transformers, sentencepiece' 2>/dev/null || skip "$python has no transformers"
wheel=$folder/django-5.2.8-py3-none-any.whl
[ -f "$wheel" ] || python3 -m pip download --quiet --no-deps --dest "$folder" django==5.2.8 >"$folder/pip.log" 2>&1
[ -f "$wheel" ] || skip "django cannot be fetched from PyPI ($(tail -n 1 "$folder/pip.log"))"
"$python" - "$wheel" "$folder/texts" <<'END' || failed
import collections, gettext, io, random, re, sys, unicodedata, zipfile

MOST = 1400  # lines of one script
archive, lines = zipfile.ZipFile(sys.argv[1]), {}
for name in sorted(archive.namelist()):
    if re.search(r"/locale/[^/]+/LC_MESSAGES/\w+\.mo$", name):
        messages = gettext.GNUTranslations(io.BytesIO(archive.read(name)))._catalog
        for key, text in sorted(messages.items(), key=str):
            lines |= dict.fromkeys(text.splitlines() if key else [])
scripts = collections.defaultdict(list)
for line in lines:
    letters = collections.Counter(unicodedata.name(c, "?").split(" ")[0] for c in line if c.isalpha())
    if letters:
        scripts[letters.most_common(1)[0][0]].append(line)
draw = random.Random(1)
chosen = [line for _, of in sorted(scripts.items()) for line in draw.sample(of, min(len(of), MOST))]
draw.shuffle(chosen)
counts = ", ".join(f"{name.capitalize()} {min(len(of), MOST)}" for name, of in sorted(scripts.items()))
print(f"{len(chosen)} lines: {counts}")
if len(chosen) < 10000 or len(scripts) < 10:
    sys.exit("these are too few")
open(sys.argv[2], "w", encoding="utf-8").write("\n".join(chosen) + "\n")
END
echo "training tokenizers"
"$python" "$golden/make_tokenizers.py" --texts "$folder/texts" -o "$folder/tokenizers" >"$folder/make.log" 2>&1 ||
    { tail -n 5 "$folder/make.log"; failed; }
if "$test" "$folder/tokenizers"; then
    echo "$(ls -d "$folder"/tokenizers/*/ | wc -l) tokenizers give the same ids and texts"
    echo "1 passed, 0 failed, 0 skipped"
else
    failed
fi
