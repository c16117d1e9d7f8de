# Shared by the tests of several MPI ranks on one device.
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export TMPDIR="$here" # for the session folders of Open MPI

# unlaunched: whether several ranks cannot be started; prints the reason
unlaunched() {
    if ! ldd "$tfm" | grep -q libmpi; then
        skip "train on several ranks" "this tfm was built without MPI"
    elif ! command -v mpirun >/dev/null; then
        skip "train on several ranks" "there is no mpirun"
    else
        return 1
    fi
}
ranks() { # ranks NUMBER ARGUMENT...
    world=$1
    shift
    mpirun -n "$world" "$tfm" train "$@" >out 2>err
    code=$?
}
# fresh NUMBER DIR ARGUMENT...: a new run of the small model
fresh() {
    world=$1 dir=$2
    shift 2
    # shellcheck disable=SC2086 # words
    ranks "$world" -o "$dir" $small "$@"
}
# other OPTIONS ARGUMENT...: two ranks, the second with additional options
cat >"$here/with" <<'END'
#!/bin/sh
more=$1
shift
[ "$OMPI_COMM_WORLD_RANK" = 1 ] || more=
exec "$@" $more
END
chmod +x "$here/with"
other() {
    more=$1
    shift
    timeout 60 mpirun -n 2 "$here/with" "$more" "$tfm" train "$@" >out 2>err
    code=$?
}
# near DIR DIR: the same updates and losses, up to rounding
near() {
    for folder in "$1" "$2"; do
        sed -n 's/^{"type":"train","update":\([0-9]*\),.*"loss":\([0-9.]*\),.*"grad_norm":\([0-9.]*\),.*/\1 \2 \3/p' \
            "$folder/train.jsonl" >"losses-$folder"
    done
    [ -s "losses-$1" ] && [ "$(wc -l <"losses-$1")" = "$(wc -l <"losses-$2")" ] &&
        paste "losses-$1" "losses-$2" | awk '$1 != $4 || ($2 - $5) ^ 2 > 1e-7 || ($3 - $6) ^ 2 > 1e-5 { exit 1 }'
}
told() { # told TEXT: exactly one line of the program has it
    [ "$(grep -c '^tfm' err)" = 1 ] && grep -q "^tfm.*$1" err
}
# shards DIR: the shards of its checkpoint, as UPDATE-RANK-of-WORLD
shards() {
    for shard in "$1"/checkpoint.safetensors-*; do
        [ -e "$shard" ] && printf '%s ' "${shard##*safetensors-}"
    done
}
# sent DIR: the bytes sent per report of one update
sent() {
    sed -n 's/.*"comm_bytes":\([0-9]*\),.*/\1/p' "$1/train.jsonl"
}
# started N: the processes of the ranks that launcher $child has started, once there are N, or the run is over
started() {
    until [ "$(pgrep -c -x -P "$child" "${tfm##*/}")" -ge "$1" ]; do
        kill -0 "$child" 2>/dev/null || return
        sleep 0.02
    done
    pgrep -x -P "$child" "${tfm##*/}"
}
# kill_rank N: kills rank N, from 1, of launcher $child; sets the exit code of the run, and the seconds until it ended
kill_rank() {
    victim=$(started 2 | sed -n "$1p")
    begun=$(date +%s)
    [ -n "$victim" ] && kill -9 "$victim"
    wait "$child"
    code=$?
    seconds=$(($(date +%s) - begun))
}
