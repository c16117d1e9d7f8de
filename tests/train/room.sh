# tfm train: memory and disks that run short.
. "$(dirname "$0")/common.sh"

short="$files --valid-every 3 --report-every 3 --average 2 --ffn 128 --batch-tokens 1024"
loss() { # of the third update
    sed -n 's/^{"type":"train","update":3,.*"loss":\([0-9.]\{6\}\).*/\1/p' "$1/train.jsonl"
}
# shellcheck disable=SC2086
begin whole $short --updates 3 --dropout 0
export OPENCL_LAYERS="$layer"
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=300000 begin part $short --updates 3 --dropout 0
check "a batch that the device has no room for: run in pieces" both 0 says err '^tfm: warning: update 1: .* run in pieces'
check "and they come to the same" [ "$(loss part)" = "$(loss whole)" ]
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=300000 begin whole $short --updates 12 --warmup 3
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=300000 begin part $short --updates 6 --warmup 3
TFM_FAULT_LIE=max_alloc=300000 resume part --updates 12
check "--resume: pieces come to the same bits" both 0 cmp whole/snapshots/00000012.safetensors part/snapshots/00000012.safetensors
# shellcheck disable=SC2086
TFM_FAULT_LIE=max_alloc=100000 begin part $short
check "a model that the device has no room for" one_sentence 1 'takes at most 100000 bytes'
# shellcheck disable=SC2086
TFM_FAULT_LIE=memory=4000000 begin part $short --updates 1
check "more memory than there is: said beforehand" both 0 says err "^that is more than the device's 4 MB"
check "and batches are split, though the driver would refuse nothing" says err '^tfm: warning: update 1: .* run in pieces'
unset OPENCL_LAYERS

# A full disk is a file that may not grow: blocks of 512 bytes.
with_room() { # BLOCKS ARGUMENT...
    code=$(
        trap '' XFSZ
        ulimit -f "$1"
        shift
        "$tfm" train "$@" >out 2>err
        echo $?
    )
}
plan="$files --valid-every 2 --average 2 --ffn 1024 --schedule constant --best-by ppl"
# shellcheck disable=SC2086
begin whole $plan --updates 6
# shellcheck disable=SC2086
begin part $plan --updates 4
with_room 2400 --resume part --updates 6
check "a disk that is full: the checkpoint" one_last 1 'cannot write part/checkpoint.safetensors: File too large'
check "a disk that is full: nothing unfinished stays" tidy part
with_room 800 --resume part --updates 6
check "a disk that is full: the model" one_last 1 'cannot write part/model.safetensors: File too large'
resume part
check "once there is room: --resume comes to the same bits" cmp whole/snapshots/00000006.safetensors part/snapshots/00000006.safetensors

echo "1..$count"
