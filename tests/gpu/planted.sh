# That check.sh can fail: it judges kernels with one fault each (planted/), one that is known to fail, and one without
# faults that is said to fail.
#     sh tests/gpu/planted.sh FOLDER       a folder to write into
# Prints TAP.
set -u
here=$(dirname "$0")
out=${1:?give a folder to write into}
. "$here/targets.sh"
export TFM_GPU_PROGRAMS="$here/planted" TFM_GPU_KNOWN="$here/planted/known.txt"
options=
number=0
echo "1..10"
for target in nvptx gfx1100; do
    lacking=$("have_$target")
    [ "$lacking" ] || sh "$here/check.sh" "$out" "$target" >"$out/planted.log"
    for fault in " private_array bad: .*(private array of 128 bytes in memory|bytes of scratch)" \
        " local_memory bad: 40960 bytes of local memory" " mistake bad: does not build: .*flaot" \
        " missing_function bad: .*a function that is not there" ": no program fails any more .* sound arrays"; do
        number=$((number + 1))
        name="$target$fault"
        if [ "$lacking" ]; then
            echo "ok $number - $name # SKIP $lacking"
        elif grep -qE "^$target$fault" "$out/planted.log" && grep -qx "1 passed, 5 failed, 0 skipped" \
            "$out/planted.log"; then
            echo "ok $number - $name"
        else
            echo "not ok $number - $name"
            sed 's/^/# /' "$out/planted.log"
        fi
    done
done
