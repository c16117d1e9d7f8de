# How decoding's time and the memory of attention and training grow with length: three tables and a picture.
#     sh tests/bench/growth.sh [--rounds N] [--out PREFIX] [PART...]     PART: decoding, attention or training; none: all
# Writes PREFIX.md, PREFIX.json and PREFIX.svg, by default build/bench/growth; parts that are not run stay as they are
# there. Times are the least of N rounds (3 if not given); nothing else should run meanwhile. It asks for a CPU, where the
# pool's memory is the process's, unless TFM_DEVICE names another device. Needs python3 and no packages.
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
