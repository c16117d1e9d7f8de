# Builds every program that a GPU is asked for, for GPUs that are not here, and judges the machine code.
#     sh tests/gpu/check.sh BUILD [TARGET...]      all of targets.sh if none is named
# A program fails that does not build, keeps private arrays or registers in memory, or takes more than 32 KiB of local
# memory. Those that fail today are in known.txt; the check fails where one fails that is not in it, and where one of it
# no longer does. TFM_POSES are the devices that PoCL poses as; TFM_GPU_PROGRAMS is a folder of programs already found,
# TFM_GPU_KNOWN another list of those that fail. Of the variants of one program at most TFM_GPU_MOST are built, all if it
# is not set; what known.txt has need not be among them then.
# Ends with a line "N passed, N failed, N skipped"; the exit code says whether all is well.
set -u
here=$(dirname "$0")
build=${1:?give a build folder}
shift
. "$here/targets.sh"
# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- $TARGETS
out=$build/gpu
mkdir -p "$out"
if [ "${TFM_GPU_PROGRAMS:-}" ]; then
    programs=$TFM_GPU_PROGRAMS
else
    programs=$out/programs
    # shellcheck disable=SC2086 # words
    sh "$here/find.sh" "$build" "$programs" ${TFM_POSES:-group=1024,local=32768 group=1024,local=65536,fp16=1,subgroups=1 \
        group=256,local=32768 group=64,local=32768} || {
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    }
fi
for target; do
    rm -rf "${out:?}/$target"
    printf '%s\n' "$programs"/*.cl | awk -v target="$target" -v out="$out" -v most="${TFM_GPU_MOST:-1000000}" '
        { name = $0; sub(/-[0-9a-f]*[.]cl$/, "", name) }
        ++seen[name] <= most { print target, $0, out }'
done | xargs -P "$(nproc)" -L 1 sh "$here/judge.sh" >"$out/verdicts"
sort -o "$out/verdicts" "$out/verdicts"

awk -v targets="$*" -v few="${TFM_POSE_TESTS+1}" -v capped="${TFM_GPU_MOST+1}" -f "$here/verdicts.awk" "${TFM_GPU_KNOWN:-$here/known.txt}" "$out/verdicts"
