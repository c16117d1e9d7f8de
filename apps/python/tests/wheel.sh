# Tests the wheel: builds it with ../wheel.sh, installs it in a clean virtual environment, and runs the tutorial and the
# command there.
#     sh apps/python/tests/wheel.sh FOLDER
# Exit code 77 without PyPI.
set -u
mkdir -p "$1"
folder=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../../..")

rm -f "$folder"/tfm-*.whl
if ! sh "$here/../wheel.sh" "$folder" >"$folder/wheel.log" 2>&1; then
    grep -qiE 'no matching distribution|connection|name resolution' "$folder/wheel.log" &&
        echo "skipped: the wheel's tools cannot be fetched" && exit 77
    tail -n 20 "$folder/wheel.log"
    exit 1
fi
ls -l "$folder"/tfm-*.whl
rm -rf "$folder/clean"
python3 -m venv "$folder/clean" || exit 1
"$folder/clean/bin/pip" install --quiet --disable-pip-version-check "$folder"/tfm-*.whl || exit 1
cd "$folder" || exit 1 # not the source folder: it would shadow the package
"$folder/clean/bin/python" "$root/apps/python/tutorial.py" || exit 1
[ "$(echo "Ich liebe dich." | "$folder/clean/bin/tfm" translate -m "$root/apps/demo")" = "I love you." ]
