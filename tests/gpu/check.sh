# Builds every program that a GPU is asked for, for GPUs that are not here, and judges the machine code.
#     sh tests/gpu/check.sh BUILD [TARGET...]      all of targets.sh if none is named
# A program fails that does not build, keeps private arrays or registers in memory, or takes more than 32 KiB of local
# memory. Those that fail today are in known.txt; the check fails where one fails that is not in it, and where one of it
# no longer does. TFM_POSES are the devices that PoCL poses as, but for targets that have a pose of their own in
# targets.sh, as Intel's have: those are judged by what such a device alone is asked for. TFM_GPU_PROGRAMS is a folder of
# programs already found, for all targets; TFM_GPU_KNOWN another list of those that fail. Of the variants of one program
# at most TFM_GPU_MOST are built, all if it is not set; what known.txt has need not be among them then.
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
# find_programs FOLDER POSE...: what devices of these poses are asked for, unless it was found for another target
find_programs() {
    case " $found " in
    *" $1 "*) ;;
    *)
        found="$found $1"
        sh "$here/find.sh" "$build" "$@" || {
            echo "0 passed, 1 failed, 0 skipped"
            exit 1
        }
        ;;
    esac
}
found=
for target; do
    [ ! "${TFM_GPU_PROGRAMS:-}" ] || break
    eval "pose=\${pose_$target:-}"
    if [ "$pose" ] && [ ! "$(options='' "have_$target")" ]; then
        find_programs "$out/programs-$target" "$pose"
    else
        rm -rf "$out/programs-$target" # of an earlier run, if any
        # shellcheck disable=SC2086 # words
        find_programs "$out/programs" ${TFM_POSES:-group=1024,local=32768 group=1024,local=65536,fp16=1,subgroups=1 \
            group=256,local=32768 group=64,local=32768}
    fi
done
for target; do
    rm -rf "${out:?}/$target"
    programs=${TFM_GPU_PROGRAMS:-$out/programs-$target}
    [ -d "$programs" ] || programs=$out/programs
    printf '%s\n' "$programs"/*.cl | awk -v target="$target" -v out="$out" -v most="${TFM_GPU_MOST:-1000000}" '
        { name = $0; sub(/-[0-9a-f]*[.]cl$/, "", name) }
        ++seen[name] <= most { print target, $0, out }'
done | xargs -P "$(nproc)" -L 1 sh "$here/judge.sh" >"$out/verdicts"
sort -o "$out/verdicts" "$out/verdicts"

awk -v targets="$*" -v few="${TFM_POSE_TESTS+1}" -v capped="${TFM_GPU_MOST+1}" -f "$here/verdicts.awk" "${TFM_GPU_KNOWN:-$here/known.txt}" "$out/verdicts"
