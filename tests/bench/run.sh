# Compares tfm with OpenBLAS, PyTorch, CTranslate2 and ONNX Runtime on this machine, in turns: one table.
#     sh tests/bench/run.sh [--rounds N] [--out PREFIX] [ROW...]     ROW: the beginning of a row's name; default: all
#     sh tests/bench/run.sh --list
# Writes PREFIX.md, PREFIX.json and PREFIX.svg, by default build/bench/peers; keeps the existing results of other rows.
# pip installs the peers into build/bench/venv (some GB), unless TFM_BENCH_VENV names an environment that has them.
# Their scripts and texts are in ../shared; rows with missing files are skipped and named.
set -eu
cd "$(dirname "$0")/../.."
venv=${TFM_BENCH_VENV:-build/bench/venv}
mkdir -p build/bench
if [ ! -f build/release/build.ninja ]; then
    meson setup build/release --buildtype=release -Dtests=true
fi
ninja -C build/release >build/bench/build.log || { tail -n 20 build/bench/build.log >&2; exit 1; }
if [ ! -x "$venv/bin/python3" ]; then
    echo "run.sh: installing the peers into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/python3" -m pip install --quiet torch==2.13.0 transformers==5.23.0 ctranslate2==4.8.5 onnxruntime onnx \
        onnxscript numpy sentencepiece safetensors
fi
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
exec "$venv/bin/python3" tests/bench/run.py "$@"
