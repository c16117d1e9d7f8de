# The tests of the Python package: mypy --strict, pytest, and the tutorial, with the library and the program in BUILD.
# The package is assembled in FOLDER, with a virtual environment; pip installs its dependencies.
#     sh apps/python/tests/run.sh BUILD FOLDER [TEST...]
# Exit code 77 without Python 3.10 with venv, or without PyPI.
set -u
build=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
here=$(dirname "$(realpath "$0")")
package=$(dirname "$here")

skip() {
    echo "skipped: $*"
    exit 77
}
venv=$folder/venv
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    skip "there is no Python 3.10 with venv"
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >"$folder/venv.log" 2>&1 || skip "no virtual environment: $(tail -n 1 "$folder/venv.log")"
if [ ! -f "$venv/ready" ]; then
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile cffi numpy pytest mypy tqdm >"$folder/pip.log" 2>&1 ||
        skip "cannot install the dependencies of the tests: $(tail -n 1 "$folder/pip.log")"
    touch "$venv/ready"
fi

# The layout of the wheel, except that the program stays in BUILD, with its library.
rm -rf "$folder/site"
mkdir -p "$folder/site"
cp -r "$package/src/tfm" "$folder/site/tfm" || exit 1
cp "$build/lib/libtfm.so" "$folder/site/tfm/libtfm.so" || exit 1
printf '#!/bin/sh\nexec "%s" "$@"\n' "$build/apps/tfm" >"$folder/site/tfm/tfm"
chmod +x "$folder/site/tfm/tfm"
"$venv/bin/python" "$package/declare.py" "$package/../../include/tfm" "$folder/site/tfm/_declared.py" || exit 1

cd "$here" || exit 1
export PYTHONPATH="$folder/site" PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR="$folder/mypy"
failed=0
MYPYPATH=$folder/site "$venv/bin/mypy" --strict --python-executable "$venv/bin/python" -p tfm || failed=1
MYPYPATH=$folder/site "$venv/bin/mypy" --strict --python-executable "$venv/bin/python" "$here"/*.py "$package/tutorial.py" || failed=1
"$venv/bin/pytest" -q -p no:cacheprovider "$@" || failed=1
[ $# -gt 0 ] || "$venv/bin/python" -X faulthandler "$package/tutorial.py" || failed=1
exit $failed
