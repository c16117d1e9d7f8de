# tfm train: what a new run refuses, and what one that goes on does.
. "$(dirname "$0")/common.sh"

rm -rf run
begin run --src nowhere --tgt text.en
check "no such file" one_sentence 1 'cannot read nowhere: No such file'
check "no such file: no directory" [ ! -e run ]
mkfifo pipe
begin run --src text.de --tgt text.en --valid-src pipe --valid-tgt valid.en
check "a pipe" one_sentence 1 'pipe: it is no regular file'
begin run --src text.de --tgt .
check "a folder" one_sentence 1 'it is no regular file'
: >empty
begin run --src empty --tgt empty
check "no text" one_sentence 1 'no line to learn from'
begin run $files --vocab .
check "--vocab of no tokenizer" one_sentence 1 'vocab.json'
mkdir nothing
echo '{}' >nothing/vocab.json
for option in '--vocab-size 60' --separate-vocab --unigram; do
    # shellcheck disable=SC2086
    begin run $files --vocab nothing $option
    check "--vocab with $option" one_sentence 2 'are for a new one'
done
begin run $files --vocab nothing
check "--vocab of a damaged one: the sentence names it" one_sentence 1 'nothing/vocab.json'
begin run --src text.de --tgt empty
check "no pair: why" one_last 1 'text.de and empty: there is no good pair of lines: .* 240 have no partner'
tries="1 2 3 4"
brief && tries="1 2"
for i in $tries; do
    rm -rf run
    # shellcheck disable=SC2086
    "$tfm" train -o run $small $files --updates 2 --average 0 --seed 1 >out 2>first &
    # shellcheck disable=SC2086
    "$tfm" train -o run $small $files --updates 2 --average 0 --seed 2 >out 2>second
    code=$?
    wait $!
    [ $((code + $?)) = 1 -a -s run/recipe.json ] &&
        [ "$(cat first second | grep -c '^tfm: another tfm train is at work in run: \|^tfm: run holds a run already: ')" = 1 ] ||
        head first second
done >both 2>&1
check "two at once in a new directory: one trains, the other is refused" [ ! -s both ]
rm -rf run
attempt train -o text.de/run $files
check "a folder that cannot be made" one_sentence 1 'text.de/run'
begin run $files --vocab-size 5
check "a vocabulary that is too small" one_sentence 1 '5 pieces are too few'
check "it leaves nothing" [ ! -e run ]
mkdir -p kept/snapshots
for run in kept kept/deep/run; do
    # shellcheck disable=SC2086
    attempt train -o $run $small $files --device nowhere
    check "nor does a device that there is not, in $run" both 1 [ "$(find kept)" = "$(printf 'kept\nkept/snapshots')" ]
done
# shellcheck disable=SC2086
attempt train -o run $small $files --updates 1 --average 0
check "the same directory, once that is mended" [ "$code" = 0 ]
# shellcheck disable=SC2086
attempt train -o run $small $files
check "a directory that holds a run" one_sentence 1 'go on with it by --resume run'
mkdir -p foreign/snapshots && echo mine >foreign/snapshots/00098000.safetensors
attempt train -o foreign $small $files --updates 1
check "a directory with another run's snapshots" one_sentence 1 "foreign/snapshots holds another run's snapshots"
check "which stay" [ "$(cat foreign/snapshots/00098000.safetensors)" = mine ]
mkdir other && cp run/config.json other
attempt train -o other $files
check "a directory that holds a model" one_sentence 1 "another model's config.json"
check "it is left alone" [ "$(ls other)" = config.json ]
resume nowhere
check "--resume: no such run" one_sentence 1 'nowhere/recipe.json'
for option in 'width 64' 'vocab-size 100' 'seed 3' 'hold-out 3' 'batch-tokens 64' 'pre-norm' 'activation silu'; do
    # shellcheck disable=SC2086
    resume run --$option
    check "--resume --$option" one_sentence 2 "--${option% *} was chosen when the run began"
done
resume run --valid-src valid.de --valid-tgt valid.en
check "--resume: other pairs for validation" one_sentence 2 'holds pairs out'
resume run --tsv text.tsv
check "--resume: text of another kind" one_sentence 2 'not both'
resume run --updates 5 --rate 0
check "--resume: a rate of 0" one_sentence 2 '--rate 0'
check "--resume: the recipe is as it was" [ "$(value run updates)" = 1 ]
cp text.de moved.de
resume run --updates 2 --src moved.de
check "--resume: the same text elsewhere" [ "$code" = 0 -a "$(value run src)" = '"../moved.de"' ]
echo eins >>moved.de
resume run --updates 3
check "--resume: other text" one_sentence 1 'training files have changed'
sed '7s/e/a/' text.de >moved.de
resume run --updates 3
check "--resume: other text of the same size" one_sentence 1 'training files have changed'
cp text.de moved.de
# shellcheck disable=SC2086
launch -o busy $small $files --updates 100000 --valid-every 100000 --report-every 100000
wait_for_update busy 1
run train --resume busy
check "--resume: a run that is at work" one_sentence 1 'another tfm train is at work in busy'
kill -KILL $child
wait $child 2>/dev/null

# shellcheck disable=SC2086
attempt train -o other2 $small $files --vocab run --normalization identity
check "--vocab with what is for a new one" one_sentence 2 '--vocab is a vocabulary that is there'

echo "1..$count"
