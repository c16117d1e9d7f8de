# tfm train: errors of new and resumed runs.
. "$(dirname "$0")/common.sh"

rm -rf run
begin run --src nowhere --tgt text.en
check "train names a text that does not exist" one_sentence 1 'cannot read --src nowhere: No such file or directory; give a readable file'
check "train without its text makes no directory" [ ! -e run ]
mkfifo pipe
begin run --src text.de --tgt text.en --valid-src pipe --valid-tgt valid.en
check "train rejects a pipe as its text" one_sentence 1 'pipe: it is no regular file'
begin run --src text.de --tgt .
check "train rejects a directory as its text" one_sentence 1 'it is no regular file'
: >empty
begin run --src empty --tgt empty
check "train rejects an empty text" one_sentence 1 'no usable line'
begin run $files --vocab .
check "train --vocab rejects a file that is not a tokenizer" one_sentence 1 'vocab.json'
mkdir nothing
echo '{}' >nothing/vocab.json
for option in '--vocab-size 60' --separate-vocab --unigram; do
    # shellcheck disable=SC2086
    begin run $files --vocab nothing $option
    check "train --vocab with $option is a usage error" one_sentence 2 'leave out'
done
begin run $files --vocab nothing
check "train --vocab names a damaged tokenizer" one_sentence 1 'nothing/vocab.json'
begin run --src text.de --tgt empty
check "train without a usable pair says why" one_last 1 'text.de and empty: there is no valid pair of lines: .* 240 have no counterpart'
tries="1 2 3 4"
brief && tries="1 2"
for i in $tries; do
    rm -rf run
    # shellcheck disable=SC2086
    "$tfm" train -o run $small $files --max-steps 2 --average 0 --seed 1 >out 2>first &
    # shellcheck disable=SC2086
    "$tfm" train -o run $small $files --max-steps 2 --average 0 --seed 2 >out 2>second
    code=$?
    wait $!
    [ $((code + $?)) = 1 -a -s run/recipe.json ] &&
        [ "$(cat first second | grep -c '^tfm: another tfm train is running in run: \|^tfm: run holds a run already: ')" = 1 ] ||
        head first second
done >both 2>&1
check "one of two runs that start in one directory trains and the other is rejected" [ ! -s both ]
rm -rf run
attempt train -o text.de/run $files
check "train reports a directory that cannot be made" one_sentence 1 'text.de/run'
for wrong in "--learning-rate -1" "--epsilon 0" "--weight-decay -1" "--max-grad-norm -1"; do
    # shellcheck disable=SC2086 # words
    begin run $files $wrong
    check "train $wrong is a usage error that names only this option" one_sentence 2 "train: ${wrong% *} is ${wrong#* }: give "
done
begin run $files --vocab-size 5
check "train rejects a vocabulary size that is too small" one_sentence 1 '5 pieces are too few'
check "train with a vocabulary size that is too small leaves nothing" [ ! -e run ]
mkdir -p kept/snapshots
for run in kept kept/deep/run; do
    # shellcheck disable=SC2086
    attempt train -o $run $small $files --device nowhere
    check "train on a device that does not exist leaves nothing in $run" both 1 [ "$(find kept)" = "$(printf 'kept\nkept/snapshots')" ]
done
# shellcheck disable=SC2086
attempt train -o run $small $files --max-steps 1 --average 0
check "train in the directory of a rejected run succeeds" [ "$code" = 0 ]
# shellcheck disable=SC2086
attempt train -o run $small $files
check "train rejects a directory that holds a run" one_sentence 1 'resume it by --resume run'
mkdir -p foreign/snapshots && echo mine >foreign/snapshots/00098000.safetensors
attempt train -o foreign $small $files --max-steps 1
check "train rejects a directory with another run's snapshots" one_sentence 1 "foreign/snapshots holds another run's snapshots"
check "train keeps another run's snapshots" [ "$(cat foreign/snapshots/00098000.safetensors)" = mine ]
mkdir other && cp run/config.json other
attempt train -o other $files
check "train rejects a directory that holds a model" one_sentence 1 "another model's config.json"
check "train leaves a directory that holds a model unchanged" [ "$(ls other)" = config.json ]
resume nowhere
check "train --resume names a directory without a run" one_sentence 1 'nowhere/recipe.json'
for option in 'width 64' 'vocab-size 100' 'seed 3' 'hold-out 3' 'batch-tokens 64' 'pre-norm' 'activation silu'; do
    # shellcheck disable=SC2086
    resume run --$option
    check "train --resume --$option is a usage error" one_sentence 2 "--${option% *} cannot change in a resumed run"
done
resume run --valid-src valid.de --valid-tgt valid.en
check "train --resume rejects other validation pairs" one_sentence 2 'holds pairs out'
resume run --tsv text.tsv
check "train --resume rejects text of another kind" one_sentence 2 'not both'
resume run --max-steps 5 --learning-rate 0
check "train --resume rejects a learning rate of 0" one_sentence 2 '--learning-rate is 0: give a number above 0;'
check "train --resume with a rejected option leaves the recipe unchanged" [ "$(value run max-steps)" = 1 ]
cp text.de moved.de
resume run --max-steps 2 --src moved.de
check "train --resume accepts the same text at another path" [ "$code" = 0 -a "$(value run src)" = '"../moved.de"' ]
echo eins >>moved.de
resume run --max-steps 3
check "train --resume rejects other text" one_sentence 1 'training files have changed'
sed '7s/e/a/' text.de >moved.de
resume run --max-steps 3
check "train --resume rejects other text of the same size" one_sentence 1 'training files have changed'
cp text.de moved.de
# shellcheck disable=SC2086
launch -o busy $small $files --max-steps 100000 --eval-steps 100000 --logging-steps 100000
wait_for_update busy 1
run train --resume busy
check "train --resume rejects a run that is still training" one_sentence 1 'another tfm train is running in busy'
kill -KILL $child
wait $child 2>/dev/null

# shellcheck disable=SC2086
attempt train -o other2 $small $files --vocab run --normalization identity
check "train --vocab with options for a new vocabulary is a usage error" one_sentence 2 '--vocab is an existing vocabulary'

echo "1..$count"
