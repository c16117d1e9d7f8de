# Distributed tokenizing over MPI ranks: equals a single reader.
#     sh tests/train/ranks_read.sh PROGRAM SOURCE_ROOT FAULT_LAYER
. "$(dirname "$0")/ranks_common.sh"
if unlaunched; then
    echo "1..$count"
    exit
fi
valid="--valid-src valid.de --valid-tgt valid.en"
# Of every 20 lines one is empty, one is invalid UTF-8, one is too long and one has a NUL; some are unpaired.
damage() {
    awk 'BEGIN { long = sprintf("%200s", ""); gsub(/ /, "eins ", long) }
        NR % 20 == 3 { print ""; next } NR % 20 == 8 { print "\377"; next } NR % 20 == 14 { print long; next } { print }'
}
damage <text.de >bad.de
cp text.en bad.en
text 3 7 | cut -f2 >>bad.en
plan="--src bad.de --tgt bad.en $valid --vocab one --max-length 40 --buffer-size 50 --logging-steps 1 --eval-steps 100 --patience 0
    --dropout 0.1 --epsilon 1e-3 --lr-scheduler-type constant --warmup-steps 10 --gradient-accumulation-steps 6 --max-steps 9"
begin one $files $valid --max-steps 1
# The pairs of a pass, and the skipped ones by reason.
data() {
    sed -n 's/^{"type":"data","update":\(.*\)}$/\1/p' "$1/train.jsonl"
}
# shellcheck disable=SC2086 # words
begin alone $plan
check "train on one rank makes several passes over several buffers" both 0 says err '204 pairs for training; left out: 12 with an empty side, 12 too long, 12 invalid, 3 without a partner'
for world in 2 3; do
    # shellcheck disable=SC2086
    fresh $world "of$world" $plan
    check "train on $world ranks has the losses of one rank" both 0 near alone "of$world"
    check "train on $world ranks skips the same lines in the same update" [ -n "$(data alone)" -a "$(data alone)" = "$(data "of$world")" ]
    # shellcheck disable=SC2086
    fresh $world again $plan
    check "train on $world ranks gives the same parameters every time" alike "of$world" again
    rm -rf again
done

# ---- Several files
head -n 100 bad.de | head -c -1 >first.de
head -n 103 bad.en >first.en # three unpaired lines
tail -n +101 bad.de >last.de
tail -n +101 bad.en >last.en
# shellcheck disable=SC2086
fresh 2 several ${plan#*bad.en} --src first.de --tgt first.en --src last.de --tgt last.en
check "train on ranks with the text in several files succeeds" [ "$code" = 0 -a "$(data several)" = "$(data alone | sed 's/"unpaired":3/"unpaired":6/')" ]
check "train on ranks with the text in several files gives the same losses" cmp of2/snapshots/00000009.safetensors several/snapshots/00000009.safetensors

# ---- From the middle of a buffer on
# shellcheck disable=SC2086
fresh 3 part $plan --max-steps 4
ranks 2 --resume part --max-steps 6
check "train --resume of three ranks with two" both 0 says err 'update 6'
resume part --max-steps 9
check "train --resume of two ranks with one has the same losses" both 0 near alone part

# ---- Failures
# shellcheck disable=SC2086
fresh 3 strict $plan --strict
check "train --strict on ranks rejects a line that one rank has tokenized" told 'bad.de and bad.en, line 3: the source is empty; fix the pair'
check "train --strict on ranks leaves nothing after a rejected line" [ "$code" != 0 -a ! -e strict ]
: >none.de
fresh 2 none --src none.de --tgt none.en --vocab one $valid
check "train on ranks rejects files without a valid pair" told 'cannot read --tgt none.en'
: >none.en
# shellcheck disable=SC2086
fresh 2 none --src none.de --tgt none.en --vocab one $valid
check "train on ranks rejects empty files" told 'none.de and none.en: there is no valid pair of lines'

# The second rank gets copies of the files.
cat >other <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && cd other-folder
exec "$@"
END
chmod +x other
mkdir other-folder
for name in valid.de valid.en one moved; do
    ln -s "../$name" other-folder/
done
cp bad.de bad.en other-folder/
# Only some blocks of a long text are compared at the start: here not the one that differs on the second rank.
text 6000 8 >long.tsv
cut -f1 long.tsv >long.de
cut -f2 long.tsv >long.en
cp long.en other-folder/
awk 'NR == 4402 { print ""; printf "%s ", $0; next } { print }' long.de >other-folder/long.de
truncate -s 65M long.de other-folder/long.de
check "train on ranks accepts long text that differs in its second block" cmp -s -n 65536 long.de other-folder/long.de
# shellcheck disable=SC2086
mpirun -n 2 ./other "$tfm" train -o moved $small --src long.de --tgt long.en --strict --buffer-size 4500 $valid --vocab one >out 2>err
code=$?
check "train --strict on ranks names the rank of a line" told "line 4402: the source is empty; this is rank 1's text, and rank 0's is different"
check "train --strict on ranks does not skip a rejected line" [ "$code" != 0 -a -z "$(grep strict err)" ]
cp -r part other-folder/
sed 's/"max-grad-norm": 0.0/"max-grad-norm": 1.0/' part/recipe.json >other-folder/part/recipe.json
mpirun -n 2 ./other "$tfm" train --resume part --max-steps 12 >out 2>err
code=$?
check "train on ranks rejects another copy of the run" both 1 told 'rank 1 has another recipe in part than rank 0 (--max-grad-norm)'
# shellcheck disable=SC2086
mpirun -n 2 ./other "$tfm" train -o moved $small $plan --max-steps 100000 >out 2>err &
child=$!
wait_for_update moved 4
: >other-folder/bad.de
begun=$(date +%s)
wait "$child"
code=$?
check "train on ranks ends both when a file of one rank changes" [ "$code" != 0 -a $(($(date +%s) - begun)) -lt 60 ]
check "train on ranks prints one error when a file of one rank changes" told 'rank 1: bad.de has changed during training'
echo "1..$count"
