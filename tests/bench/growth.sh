# Growth with length of decoding's time and the memory of attention and training: three tables and a plot.
#     sh tests/bench/growth.sh [--rounds N] [--out PREFIX] [PART...]     decoding, attention, training; default: all
# Writes PREFIX.md, PREFIX.json and PREFIX.svg, by default build/bench/growth; keeps the existing results of other
# parts. Times are the minimum of N rounds (default 3); run nothing else meanwhile. Selects a CPU, whose pool is in the
# process's memory, unless TFM_DEVICE is set. Needs python3 and no packages.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/bench
if [ ! -f build/release/build.ninja ]; then
    meson setup build/release --buildtype=release -Dtests=true
fi
ninja -C build/release apps/tfm tests/bench_memory tests/bench_train >build/bench/build.log ||
    { tail -n 20 build/bench/build.log >&2; exit 1; }
export TFM_DEVICE="${TFM_DEVICE:-cpu}"
exec python3 tests/bench/growth.py "$@"
