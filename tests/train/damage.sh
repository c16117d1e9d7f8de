# tfm train: damaged and lost files of a run, and files of another run.
. "$(dirname "$0")/common.sh"

begin run $files --max-steps 2 --average 0
plan="$files --eval-steps 4 --logging-steps 3 --warmup-steps 2 --average 2 --hold-out 0"
# shellcheck disable=SC2086
begin part $plan --max-steps 12
for file in recipe.json checkpoint.safetensors vocab.json source.spm; do
    for damage in 'head -c 50' 'sed s/[a-z]/#/g' 'head -c 0'; do
        cp -r run damaged
        $damage run/$file >damaged/$file
        resume damaged --max-steps 3
        check "train --resume names a damaged $file ($damage)" one_sentence 1 "damaged/$file"
        rm -r damaged
    done
done
cp run/checkpoint.safetensors right
sed 's/"note":"/"nose":"/; s/"checksum":/"checksuM":/; s/"sealed":/"sealeD":/' right >run/checkpoint.safetensors # no longer sealed
resume run --max-steps 3
check "train --resume rejects the checkpoint of another run" one_sentence 1 'not written by tfm train'
for lost in snapshots snapshots/00000012.safetensors; do
    cp -r part damaged
    rm -r damaged/$lost
    resume damaged --max-steps 16
    check "train --resume warns of the lost $lost and averages without it" both 0 says err \
        '^damaged/snapshots/00000012.safetensors is missing: the average will be without it'
    rm -r damaged
done
cp -r part damaged
printf tfm | dd of=damaged/snapshots/00000012.safetensors bs=1 seek=9000 conv=notrunc 2>dd
resume damaged --max-steps 16 --valid-src valid.de --valid-tgt valid.en
check "train --resume warns of a damaged snapshot and averages without it" both 0 says err \
    'snapshots/00000012.safetensors is damaged.*the average will be without it'
rm -r damaged
cp -r part damaged
rm damaged/checkpoint.safetensors
sed -i '/"type":"end"/d' damaged/train.jsonl
cp damaged/train.jsonl log
resume damaged --max-steps 30 --eval-steps 1000 --logging-steps 3
check "train --resume rejects a run without its checkpoint" one_sentence 1 'damaged holds a run that came to update 12, but no checkpoint'
check "train --resume without a checkpoint leaves the log unchanged" cmp damaged/train.jsonl log
cp part/checkpoint.safetensors damaged
resume damaged --max-steps 14 --eval-steps 1000 --average 0
rm -r damaged/checkpoint.safetensors damaged/snapshots
sed -i '/"type":"end"/d' damaged/train.jsonl
resume damaged
check "train --resume without a checkpoint fails though the recipe saves the first one later" one_sentence 1 'came to update 1'
rm -r damaged
rm run/checkpoint.safetensors
cp run/model.safetensors model
resume run --max-steps 3
check "train --resume of a finished run without a checkpoint is an error" one_sentence 1 'run holds a run that came to its end at update 2, but no checkpoint'
check "train --resume of a finished run without a checkpoint leaves the model unchanged" cmp run/model.safetensors model
rm run/train.jsonl
resume run --max-steps 3
check "train --resume before the first checkpoint starts again" [ "$code" = 0 -a "$(reports start run) $(reports end run)" = "1 1" ]
check "train --resume before the first checkpoint says that it starts again" says err '^run has no checkpoint: the run begins again'
rm run/train.jsonl
resume run --max-steps 4
check "train --resume without a log starts a new log" both 0 json_lines run/train.jsonl

echo "1..$count"
