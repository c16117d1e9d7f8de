# Tests check.sh: it checks kernels with one fault each (planted/), one listed in known.txt, and a correct one that is
# listed as failing. Also tests that figures.py detects 64-bit multiplications in a hot loop, and only there.
#     sh tests/gpu/planted.sh FOLDER       a folder to write into
# Prints TAP.
set -u
here=$(dirname "$0")
out=${1:?give a folder to write into}
. "$here/targets.sh"
export TFM_GPU_PROGRAMS="$here/planted" TFM_GPU_KNOWN="$here/planted/known.txt"
options=
number=0
echo "1..11"
for target in nvptx gfx1100; do
    lacking=$("have_$target")
    [ "$lacking" ] || sh "$here/check.sh" "$out" "$target" >"$out/planted.log"
    for fault in " private_array bad: .*(private array of 128 bytes in memory|bytes of scratch)" \
        " local_memory bad: 40960 bytes of local memory" " mistake bad: does not build: .*flaot" \
        " missing_function bad: .*an undefined function" ": no program fails as listed any more, .* sound arrays"; do
        number=$((number + 1))
        name="$target$fault"
        if [ "$lacking" ]; then
            echo "ok $number - $name # SKIP $lacking"
        elif grep -qE "^$target$fault" "$out/planted.log" && grep -qx "2 passed, 5 failed, 0 skipped" \
            "$out/planted.log"; then
            echo "ok $number - $name"
        else
            echo "not ok $number - $name"
            sed 's/^/# /' "$out/planted.log"
        fi
    done
done
# the checked code of gfx1100
name="gfx1100: 64-bit multiplications in a loop are found"
command -v python3 >/dev/null || lacking="python3 is not installed"
if [ "$lacking" ]; then
    echo "ok 11 - $name # SKIP $lacking"
elif said=$(python3 -B - "$here" "$out"/gpu/gfx1100/wide.s <<'END' 2>&1
import sys
sys.path.insert(0, sys.argv[1])
import amdgcn
count = {name: amdgcn.counts(amdgcn.inner_loop(lines))["wide"] for name, lines in amdgcn.kernels(sys.argv[2]).items()
         if "Occupancy" in amdgcn.summary(lines)}
sys.exit(not (count["wide"] > 0 and count["narrow"] == 0) and f"found {count}")
END
); then
    echo "ok 11 - $name"
else
    echo "not ok 11 - $name"
    echo "$said" | sed 's/^/# /'
fi
