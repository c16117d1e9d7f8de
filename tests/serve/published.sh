# Published clients, and a browser, against tfm serve (clients.py, page.py). Their packages are installed from PyPI into
# an environment in FOLDER, chromium is Debian's; unavailable ones are skipped.
#     sh tests/serve/published.sh PROGRAM MAKE_DECODER FOLDER
# Ends with a line "N passed, N failed, N skipped".
set -u
tfm=$(realpath "$1")
make_decoder=$(realpath "$2")
mkdir -p "$3"
folder=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../..")
python=$folder/venv/bin/python
if ! "$python" -c 'import libretranslatepy, openai, schemathesis, playwright' 2>/dev/null; then
    python3 -m venv "$folder/venv" && "$python" -m pip install --quiet libretranslatepy openai schemathesis playwright \
        axe-core-python >"$folder/pip.log" 2>&1 || {
        echo "PyPI cannot be reached: skipped ($(tail -n 1 "$folder/pip.log"))"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    }
fi
cd "$folder" || exit 1
rm -rf chatty && mkdir chatty && "$make_decoder" chatty && python3 "$here/make_words.py" chatty || exit 1
other=$root/tests/golden/untied-gelu-bf16
: >log # one of before has another port
"$tfm" serve --port 0 -m "$root/apps/demo" -m "fr-en=$other" -m chatty -m "embedder=$root/tests/golden/embedder" --max-new-tokens 64 2>log &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 600); do
    port=$(sed -n 's,^tfm: .* listening on .*:\([0-9]*\)/$,\1,p' log)
    [ -z "$port" ] && kill -0 $server 2>/dev/null || break
    sleep 0.1
done
line=$(sed -n 1p "$root/apps/demo/test.de")
want=$(printf '%s\n' "$line" | "$tfm" translate -m "$root/apps/demo" 2>/dev/null)
"$python" "$here/clients.py" "$port" "$line" "$want" chatty embedder | tee clients
prompt="w10 w11 w12"
"$python" "$here/page.py" "$port" "$line" "$want" "$(printf '%s\n' "$line" | "$tfm" translate -m "$other" --split 2>/dev/null)" \
    "$prompt" "$("$tfm" generate -m chatty --max-new-tokens 12 "$prompt" 2>/dev/null)" . | tee page
"$python" "$here/openai_types.py" "$port" chatty embedder | tee types
tail -qn 1 clients page types | awk '{ p += $1; f += $3; s += $5 } END { printf "%d passed, %d failed, %d skipped\n", p, f, s }'
