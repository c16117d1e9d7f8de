#!/bin/sh
# Trains on the machines of a hosts file, and resumes from the last checkpoint when a rank or a machine fails.
#     sh train_hosts.sh HOSTS RANKS DIR OPTION...
# HOSTS is Open MPI's hosts file: a line for each machine, such as "node1 slots=2". A machine removed from it is not used
# at the next start. RANKS is the maximum number of ranks; --gradient-accumulation-steps is the fixed number of
# micro-batches. The options are those of a new run of tfm train, such as --src train.de --tgt train.en. DIR, the text and
# tfm have the same paths on all machines. An existing run is resumed with its recipe; EVERY_START has options that are not
# in the recipe, such as --shard-optimizer.
set -u
hosts=$1 ranks=$2 dir=$3
shift 3
export TFM_DEVICE="${TFM_DEVICE-gpu,gpu}" # devices of a machine, one for each rank
vain=0
while [ $vain -lt 3 ]; do
    slots=$(sed -n 's/#.*//; s/.*slots=\([0-9]*\).*/\1/p' "$hosts" | awk '{ sum += $1 } END { print sum + 0 }')
    some=$ranks
    if [ "$slots" -ge 1 ] && [ "$slots" -lt "$ranks" ]; then
        some=$slots
    fi
    : >"$dir.started"
    if [ -e "$dir/recipe.json" ]; then
        # shellcheck disable=SC2086 # words
        mpirun -n "$some" --hostfile "$hosts" -x TFM_DEVICE tfm train --resume "$dir" ${EVERY_START-}
    else
        # shellcheck disable=SC2086
        mpirun -n "$some" --hostfile "$hosts" -x TFM_DEVICE tfm train -o "$dir" "$@" ${EVERY_START-}
    fi
    code=$?
    newer=$(find "$dir" -name checkpoint.safetensors -newer "$dir.started" 2>/dev/null)
    rm -f "$dir.started"
    case $code in 0 | 2) exit $code ;; esac # completed, stopped by a signal, or wrong options
    vain=$((vain + 1))
    [ -z "$newer" ] || vain=0
    echo "train_hosts.sh: the ranks ended with $code" >&2
    sleep "${PAUSE-10}" # until a machine has restarted
done
echo "train_hosts.sh: three starts gave no new checkpoint: see the messages above" >&2
exit 1
