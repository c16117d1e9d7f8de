# tfm train: low memory and full disks.
. "$(dirname "$0")/common.sh"

short="$files --eval-steps 3 --logging-steps 3 --average 2 --ffn-dim 128 --batch-tokens 1024"
loss() { # of the third update
    sed -n 's/^{"type":"train","update":3,.*"loss":\([0-9.]\{6\}\).*/\1/p' "$1/train.jsonl"
}
# shellcheck disable=SC2086
begin whole $short --max-steps 3 --dropout 0
export OPENCL_LAYERS="$layer"
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=300000 begin part $short --max-steps 3 --dropout 0
check "train splits a batch that does not fit the device's memory" both 0 says err '^tfm: warning: update 1: .* run in pieces'
check "train with a split batch has the losses of the whole batch" [ "$(loss part)" = "$(loss whole)" ]
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=300000 begin whole $short --max-steps 12 --warmup-steps 3
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=300000 begin part $short --max-steps 6 --warmup-steps 3
TFM_FAULT_LIE=max_alloc=300000 resume part --max-steps 12
check "train --resume with split batches gives the same parameters" both 0 cmp whole/snapshots/00000012.safetensors part/snapshots/00000012.safetensors
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=100000 begin part $short
check "train rejects a model that does not fit the device's memory" one_sentence 1 'takes at most 100000 bytes'
# shellcheck disable=SC2086
TFM_FAULT_LIE=memory=4000000 begin part $short --max-steps 1
check "train warns when its estimate exceeds the device's memory" both 0 says err "^that is more than the device's 4 MB"
check "train splits batches where its estimate exceeds the device's memory" says err '^tfm: warning: update 1: .* run in pieces'
unset OPENCL_LAYERS

# A full disk is simulated by a file size limit, in blocks of 512 bytes.
with_room() { # BLOCKS ARGUMENT...
    code=$(
        trap '' XFSZ
        ulimit -f "$1"
        shift
        "$tfm" train "$@" >out 2>err
        echo $?
    )
}
plan="$files --eval-steps 2 --average 2 --ffn-dim 1024 --lr-scheduler-type constant --best-metric ppl"
# shellcheck disable=SC2086
begin whole $plan --max-steps 6
# shellcheck disable=SC2086
begin part $plan --max-steps 4
with_room 2400 --resume part --max-steps 6
check "train reports a full disk at a checkpoint" one_last 1 'cannot write part/checkpoint.safetensors: File too large'
check "train leaves no unfinished file on a full disk" tidy part
with_room 800 --resume part --max-steps 6
check "train reports a full disk at the model" one_last 1 'cannot write part/model.safetensors: File too large'
resume part
check "train --resume after a full disk gives the same parameters" cmp whole/snapshots/00000006.safetensors part/snapshots/00000006.safetensors

echo "1..$count"
