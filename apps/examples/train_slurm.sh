#!/bin/sh
# Trains on machines of Slurm, a rank for each GPU, and is requeued until the run is complete: after its time limit, and
# when a rank or a machine fails.
#     sbatch train_slurm.sh DIR OPTION...
# The options are those of a new run of tfm train, such as --src train.de --tgt train.en. DIR, the text and tfm have the
# same paths on all machines. An existing run is resumed with its recipe; EVERY_START has options that are not in the
# recipe: EVERY_START=--shard-optimizer sbatch train_slurm.sh DIR ...
#SBATCH --job-name=tfm-train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
# The ranks receive this signal five minutes before the end; all save the run and end.
set -u
dir=$1
shift
if [ -e "$dir/recipe.json" ]; then
    set -- --resume "$dir"
else
    set -- -o "$dir" "$@"
fi
export TFM_DEVICE="${TFM_DEVICE-gpu,gpu}" # devices of a machine, one for each rank

# If a rank fails, all end. Not every Slurm has PMIx: `srun --mpi=list`.
# shellcheck disable=SC2086 # words
srun --mpi=pmix --kill-on-bad-exit=1 tfm train "$@" ${EVERY_START-}
code=$?
[ $code = 2 ] && exit 2 # wrong options: do not requeue
tail -n 1 "$dir/train.jsonl" 2>/dev/null | grep -q '^{"type":"end"' && exit $code
if [ "${SLURM_RESTART_COUNT:-0}" -ge 100 ]; then
    echo "train_slurm.sh: $dir was begun a hundred times and is not at its end" >&2
    exit 1
fi
exec scontrol requeue "$SLURM_JOB_ID"
