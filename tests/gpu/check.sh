# Builds every program that the library requests for a GPU, for GPUs that are not installed, and checks the machine
# code.
#     sh tests/gpu/check.sh BUILD [TARGET...]      default: all of targets.sh
# A program fails if it does not build, has private arrays or registers in memory, or needs more than 32 KiB of local
# memory. known.txt lists the current failures; the check fails for an unlisted failure, and for a listed program that
# passes. Environment: TFM_POSES, the devices that PoCL imitates (targets with their own pose in targets.sh, such as
# Intel's, use only that pose); TFM_GPU_PROGRAMS, a folder of recorded programs for all targets; TFM_GPU_KNOWN, another
# known.txt; TFM_GPU_MOST, the maximum number of variants of a program (default: all; then listed ones may be missing).
# The last line is "N passed, N failed, N skipped"; the exit code is 1 if something failed.
set -u
here=$(dirname "$0")
build=${1:?give a build folder}
shift
. "$here/targets.sh"
# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- $TARGETS
out=$build/gpu
mkdir -p "$out"
# find_programs FOLDER POSE...: records the programs of the given poses, unless done for another target
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
        rm -rf "$out/programs-$target" # from an earlier run
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
