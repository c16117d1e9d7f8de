# tfm train, as a stranger meets it: what a run leaves behind, signals and kills, bad text, bad options, full disks.
#     sh tests/train.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
layer=$(realpath "$3")
. "$root/tests/checks.sh"

# ---- Runs
# text COUNT SEED: pairs of lines, `source TAB target`: a few numbers in words, and the same in English, backwards.
text() {
    awk -v count="$1" -v state="$2" '
        function draw(below) { state = state * 16807 % 2147483647; return int(state / 7) % below }
        BEGIN {
            words = split("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf", german, " ")
            split("zero one two three four five six seven eight nine ten eleven twelve", english, " ")
            for (i = 0; i < count; i++) {
                source = target = ""
                for (left = 1 + draw(5); left >= 0; left--) {
                    word = 1 + draw(words)
                    source = source (source ? " " : "") german[word]
                    target = english[word] (target ? " " : "") target
                }
                print source "\t" target
            }
        }'
}
text 240 1 >text.tsv
cut -f1 text.tsv >text.de
cut -f2 text.tsv >text.en
text 10 2 >valid.tsv
cut -f1 valid.tsv >valid.de
cut -f2 valid.tsv >valid.en
small="--width 32 --heads 2 --ffn 64 --encoder-layers 1 --decoder-layers 1 --batch-tokens 128"
files="--src text.de --tgt text.en"

# begin DIR ARGUMENT...: a new run of the small model; resume DIR ARGUMENT...: one that goes on. As `run` does, both try
# twice what the leak checker has spoilt.
begin() {
    dir=$1
    shift
    rm -rf "$dir"
    # shellcheck disable=SC2086 # words
    attempt train -o "$dir" $small "$@"
    if unjudged; then
        rm -rf "$dir"
        # shellcheck disable=SC2086
        attempt train -o "$dir" $small "$@"
    fi
}
resume() {
    run train --resume "$@"
}
# launch ARGUMENT...: in the background, with signals meant for it; leaves $child.
launch() {
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 env --default-signal=INT,HUP "$tfm" train "$@" >out 2>err &
    child=$!
}
# Until the log of a run has an update of this number or a later one, for a minute.
wait_for_update() { # DIR UPDATE
    tries=0
    until [ "$(sed -n 's/^{"type":"train","update":\([0-9]*\),.*/\1/p' "$1/train.jsonl" 2>/dev/null | tail -n 1)" -ge "$2" ] \
        2>/dev/null || [ $tries -ge 3000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
}

# one_last CODE TEXT: it failed with this code, and a sentence behind its reports.
one_last() {
    [ "$code" = "$1" ] && [ "$(grep -c '^tfm: ' err)" = 1 ] && tail -n 1 err | grep -q "^tfm: $2"
}

# ---- What is left
number='-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?'
string='"([^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
pair="$string: ?($string|$number|true|false|null)"
# Every line is a flat JSON object.
json_lines() {
    [ -s "$1" ] && ! grep -qvE "^\{ ?$pair(, ?$pair)* ?\}\$" "$1"
}
json_file() {
    tr -s ' \n' '  ' <"$1" | sed 's/ *$//' >joined
    echo >>joined
    json_lines joined
}
# value DIR NAME: of the recipe
value() {
    sed -n "s/^ \"$2\": \(.*[^,]\),*\$/\1/p" "$1/recipe.json"
}
# reports TYPE DIR: how many
reports() {
    grep -c "^{\"type\":\"$1\"," "$2/train.jsonl"
}
# log DIR: what must come out the same however often the run was stopped
log() {
    sed '/"type":"start"/d; /"type":"data"/d; s/,"[a-z_]*second[a-z]*":[^,}]*//g; s/,"tokens_per_s":[^,}]*//' "$1/train.jsonl"
}
# alike DIR DIR: the same model, the same parameters at the last validations, the same reports
alike() {
    cmp "$1/model.safetensors" "$2/model.safetensors" >differs 2>&1 || return 1
    [ "$(ls "$1/snapshots")" = "$(ls "$2/snapshots")" ] || return 1
    for snapshot in "$1"/snapshots/*; do
        cmp "$snapshot" "$2/snapshots/${snapshot##*/}" >>differs 2>&1 || return 1
    done
    log "$1" >left
    log "$2" >right
    cmp left right >>differs 2>&1
}
# Nothing that was being written is left, and nothing that nobody knows.
tidy() {
    [ "$(ls "$1" | grep -vxE 'recipe.json|(source|target).spm|(target_)?vocab.json|(tokenizer_|generation_)?config.json|model.safetensors|checkpoint.safetensors|snapshots|train.jsonl|curves.svg')" = "" ]
}

# ---- Usage
run train
check "nothing to train on is a usage error" one_sentence 2 '-o DIR'
run train -o '' --src text.de --tgt text.en
check "a directory without a name is one" one_sentence 2 '-o DIR'
run train -o run --src text.de
check "one side alone is one" one_sentence 2 '--src and --tgt'
run train -o run --src text.de --tgt text.en --tsv text.tsv
check "two kinds of text is one" one_sentence 2 'not both'
run train -o run $files --valid-src valid.de
check "half a validation is one" one_sentence 2 '--valid-tgt'
run train -o run --resume run
check "a new run that goes on is one" one_sentence 2 '--resume'
run train -o run $files stray
check "a stray operand is one" one_sentence 2 "'stray'"
for wrong in 'width 0' 'updates x' 'preset huge' 'activation tanh' 'schedule step' 'init zero' 'store f64' 'rate nan' \
    'dropout 1' 'label-smoothing -0.1' 'beta2 1' 'rate 0' 'rate -1' 'epsilon 0' 'epsilon 1e-300' 'clip -1' 'weight-decay -1' 'coverage 0.5' 'subword-alpha 1' 'subword-alpha 0.99999999' \
    'heads 3' 'max-length 513' 'valid-beam 33' 'vocab-size -1' 'seed -1' 'frobnicate 1'; do
    # shellcheck disable=SC2086
    begin wrong $files --${wrong% *} "${wrong#* }"
    check "--$wrong is one" both 2 says err "--${wrong% *}"
done
check "and none makes a directory" [ ! -e wrong ]
# The options that the manual page has.
options() {
    sed -n '/^\.SS train/,/^\.SS translate/s/^\.B[IR]* .*\\-\\-\([a-z0-9\\-]*\).*/--\1/p' "$root/apps/tfm.1" | tr -d '\\'
}
run train --help
sed -n 's/^ *\(-., \)*\(--[a-z0-9-]*\).*/\2/p' out | sort -u >help.names
options | sort >page.names
check "help and manual page have the same options" [ "$(wc -l <page.names)" -gt 50 -a \
    "$(sort help.names | grep -vxE -- '--(help|device)' | diff - page.names)" = "" ]

# ---- A run
begin run $files --updates 6 --valid-every 3 --report-every 2
check "a run: one line of result" [ "$code" = 0 -a "$(wc -l <out)" = 1 ]
check "a run: it says what it is" says err '^run: [0-9]* parameters, vocabulary of [0-9]*, 12 pairs for validation, about [0-9]* MB'
check "a run: it says once how many pairs there are" [ "$(grep -c '^228 pairs for training$' err) $(grep -c ' pairs ' err)" = "1 2" ]
check "a run: it says how it goes" says err \
    '^update 4/6  epoch 1  loss [0-9.]*  ppl [0-9.]*  |g| [0-9.]*  rate [0-9.e-]*  [0-9]* tokens/s ETA [0-9:]*$'
check "a run: it says how good it is" says err '^update 3  valid  ppl [0-9.]*  BLEU [0-9.]*  chrF2 [0-9.]*  best so far$'
check "a run: no control characters where nobody watches" [ "$(tr -d '\n\040-\176' <err | wc -c)" = 0 ]
check "a run: the result" says out '^run: 6 updates; best on validation: BLEU [0-9.]*, ppl [0-9.]*$'
check "a run: nothing is left lying about" tidy run
check "a run: recipe.json" json_file run/recipe.json
for name in $(options | sed 's/^--//' | grep -vxE 'out|resume'); do
    value run "$name" >found
    [ -s found ] || echo "$name"
done >missing
check "a run: recipe.json has every option" [ ! -s missing ]
check "a run: and what came of it" [ "$(value run src) $(value run width) $(value run dropout) $(value run warmup)" = \
    '"../text.de" 32 0.2 1' ]
check "a run: train.jsonl" json_lines run/train.jsonl
check "a run: its reports" [ "$(reports start run) $(reports train run) $(reports valid run) $(reports average run) $(reports end run)" = \
    "1 4 2 1 1" ]
check "a run: and its pairs" \
    grep -qx '{"type":"data","update":1,"pairs":228,"empty":0,"long":0,"invalid":0,"unpaired":0}' run/train.jsonl
check "a run: the keys of a report" [ "$(grep -c '^{"type":"train","update":4,"epoch":1,"loss":.*,"nll":.*,"ppl":.*,"gradient_norm":.*,"rate":.*,"tokens_per_s":.*,"seconds":[0-9.]*}$' run/train.jsonl)" = 1 ]
run attend -m run "eins" -o attention.svg
pictures=$code # 1: there is no cairo, or no font
if [ $pictures = 0 ]; then
    check "a run: curves" grep -q '</svg>' run/curves.svg
else
    skip "a run: curves" "$(cat err)"
fi
run translate -m run -i valid.de
check "a run: tfm translate opens it" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
run eval -m run --src valid.de --ref valid.en
check "a run: tfm eval opens it" both 0 says out '^BLEU = '
run info run
check "a run: tfm info opens it" [ "$code" = 0 ]
cp -r run again
begin run $files --updates 6 --valid-every 3 --report-every 2
check "the same run again: the same bits" alike run again
begin run $files --updates 6 --valid-every 3 --report-every 2 --seed 2
check "another seed: others" [ "$code" = 0 -a "$(alike run again || echo others)" = others ]
mv again run2
rm run2/curves.svg
resume run2
check "--resume of a run that is over: the end once more" [ "$code" = 0 -a "$(wc -l <out)" = 1 -a "$(reports end run2)" = 1 ]
check "--resume: the curves are drawn again" [ $pictures = 1 -o -s run2/curves.svg ]

# ---- Going on
plan="$files --updates 60 --valid-every 10 --report-every 1 --dropout 0.1 --buffer 70 --accumulate 2 --average 3"
# shellcheck disable=SC2086
begin whole $plan
check "a longer run" [ "$code" = 0 -a "$(ls whole/snapshots | tr '\n' ' ')" = \
    "00000040.safetensors 00000050.safetensors 00000060.safetensors " ]
for signal in TERM INT HUP; do
    rm -rf part
    # shellcheck disable=SC2086
    launch -o part $small $plan
    wait_for_update part 13
    kill -$signal $child
    [ $signal = HUP ] && kill -$signal $child # a terminal that closes
    wait $child
    code=$?
    check "SIG$signal: the run says how to go on" both 0 says err \
        '^stopped behind update [1-5][0-9]; go on with: tfm train --resume part$'
    check "SIG$signal: and nothing on standard output" [ ! -s out ]
    check "SIG$signal: a checkpoint at that update" [ "$(sed -n 's/^stopped behind update \([0-9]*\);.*/\1/p' err)" = \
        "$(head -c 4000 part/checkpoint.safetensors | sed -n 's/.*"update": *"\([0-9]*\)".*/\1/p')" ]
    check "SIG$signal: curves so far" [ $pictures = 1 -o -s part/curves.svg ]
    (cd part/snapshots && "$tfm" train --resume .. >../../out 2>../../err)
    code=$?
    check "SIG$signal: --resume, from elsewhere, comes to the same bits" both 0 alike part whole
done

# In the middle of a validation, in a folder whose name a shell would take apart.
for i in 1 2 3 4 5 6 7 8 9 10; do cat valid.tsv valid.tsv valid.tsv valid.tsv valid.tsv valid.tsv; done >long.tsv
plan="$files --updates 10 --valid-every 5 --report-every 1 --average 2 --valid-tsv long.tsv --valid-beam 8"
# shellcheck disable=SC2086
begin whole $plan
rm -rf "it's"
# shellcheck disable=SC2086
launch -o "it's" $small $plan
wait_for_update "it's" 5
kill -TERM $child
wait $child
code=$?
check "SIGTERM in a validation: it is left off" both 0 says err '^stopped behind update 5; go on with: '
check "SIGTERM in a validation: there is no report of it" [ "$(reports valid "it's")" = 0 -a ! -e "it's/model.safetensors" ]
eval "run $(sed -n 's/^stopped behind .*; go on with: tfm //p' err)"
check "SIGTERM in a validation: it is made first when the run goes on, to the same bits" both 0 alike "it's" whole
rm "it's/model.safetensors"
resume "it's"
check "a lost model: what validation finds now" both 0 [ -s "it's/model.safetensors" ]
check "a lost model: said" says err "it's/model.safetensors is not there any more: the best model is looked for anew"
check "a lost model: no snapshot counts twice" [ "$(ls "it's/snapshots")" = "$(ls whole/snapshots)" ]

# Before there is an update.
for i in 1 2 3 4 5 6 7 8 9 10; do cat text.de; done >more.de
for i in 1 2 3 4 5 6 7 8 9 10; do cat text.en; done >more.en
rm -rf part
# shellcheck disable=SC2086
device=$(sed -n 's/.*"type":"start".*"device":"\([^"]*\)".*/\1/p' whole/train.jsonl | head -n 1)
launch -o part $small --src more.de --tgt more.en --device "$device"
while [ ! -s part/recipe.json ] && kill -0 $child; do
    sleep 0.01
done
sleep 0.05
kill -TERM $child
wait $child 2>/dev/null
tr -d "'" <err >plain
check "SIGTERM before an update: how to go on all the same" grep -qF "go on with: tfm train --resume part --device $device" plain
resume part --updates 2
check "SIGTERM before an update: --resume does" [ "$code" = 0 -a -s part/model.safetensors ]

# A run that is killed is killed now and then while it writes, since it writes behind each update.
delays() { # COUNT: seconds below one
    awk -v count="$1" 'BEGIN { srand(); for (i = 0; i < count; i++) printf "%.3f\n", 0.05 + 0.9 * rand() }'
}
plan="$files --updates 40 --valid-every 1 --report-every 1 --hold-out 3 --buffer 70 --average 2 --patience 0"
# shellcheck disable=SC2086
begin whole $plan
check "a run that validates much" [ "$code" = 0 ]
rm -rf part
# shellcheck disable=SC2086
launch -o part $small $plan
wait_for_update part 1
kills=0
for delay in $(delays 10); do
    kill -KILL $child
    wait $child
    [ $? = 137 ] && kills=$((kills + 1))
    if [ -e part/config.json ]; then
        "$tfm" info part >out 2>err || echo "after $kills kills: $(cat err)" >>broken
    fi
    launch --resume part
    sleep "$delay"
done 2>stderr
wait $child
code=$?
check "SIGKILL, again and again: the model that is there can be opened" [ ! -e broken ]
check "SIGKILL: --resume ends with the same bits" both 0 alike part whole
check "SIGKILL: it did kill" [ $kills -ge 2 ]
check "SIGKILL: nothing is left lying about" [ "$(tidy part && ls part/snapshots | tr '\n' ' ')" = \
    "00000039.safetensors 00000040.safetensors " ]

# Stopped where it is then to end: with a validation and a model, as if it had begun with so many updates.
plan="$files --valid-every 1000 --report-every 1 --warmup 2 --average 2"
rm -rf part
# shellcheck disable=SC2086
launch -o part $small $plan --updates 100000
wait_for_update part 1
kill -TERM $child
wait $child
stopped=$(sed -n 's/^stopped behind update \([0-9]*\);.*/\1/p' err)
resume part --updates "$stopped"
check "--resume --updates: no more than there are" both 0 says out "^part: $stopped updates; best on validation: BLEU"
check "--resume --updates: a model all the same" [ -s part/model.safetensors -a -s "part/snapshots/$(printf %08d "$stopped").safetensors" ]

# begin_noisy OPTION...: at a high rate the average is better than what it is made of, with every other seed or so: the
# first such run.
begin_noisy() {
    for seed in 1 2 3 4 5 6 7 8 9 10; do
        # shellcheck disable=SC2086
        begin noisy $files --valid-src valid.de --valid-tgt valid.en --report-every 10 --warmup 1 --rate 2e-2 --schedule constant \
            --dropout 0 --best-by ppl --seed $seed "$@"
        grep -q '"average".*"best":true' noisy/train.jsonl && break
    done
}
# It stays the best when the run goes on.
begin_noisy --updates 150 --valid-every 5 --average 10 --patience 0
check "the average: the best" grep -q '"average".*"best":true' noisy/train.jsonl
best=$(sed 's/.*ppl //' out)
cp noisy/model.safetensors averaged
resume noisy --updates 152 --valid-every 1 --rate 1e-12
check "the average: the best of a run that went on" both 0 says out "152 updates; best on validation: BLEU .*, ppl $best\$"
check "the average: the model" cmp averaged noisy/model.safetensors

# The same where patience ends the run, which it does for good.
begin_noisy --updates 1000 --valid-every 10 --average 6 --patience 2
check "the average: the best of a run out of patience" both 0 grep -q '"average".*"best":true' noisy/train.jsonl
check "the average: which says so" grep -q '"reason":"patience"' noisy/train.jsonl
cp out before
resume noisy
check "--resume: out of patience still" same out before

# One that is worse than the last validation is kept only where the recipe says so.
# shellcheck disable=SC2086
begin steady $files --valid-src valid.de --valid-tgt valid.en --updates 20 --valid-every 5 --report-every 10 --warmup 1 --rate 1e-3 \
    --schedule constant --average 4 --best-by ppl
check "the average: not the best" grep -q '"average".*"best":false' steady/train.jsonl
cp steady/model.safetensors last
resume steady --keep-average
check "--keep-average: kept" both 0 says err '^update 20  average .*  kept$'
check "--keep-average: its figures" says out '^steady: 20 updates; the average on validation: BLEU '
resume steady --updates 21 --valid-every 100 --average 1
check "--keep-average: not without an average" one_sentence 2 '--keep-average needs an average of 2 at least: --average is 1'
begin single $files --updates 2 --hold-out 0 --keep-average
check "--keep-average: of one there is none" both 0 says err 'one snapshot alone, so the model is no average'
check "--keep-average: the model" [ "$(cmp steady/model.safetensors last >/dev/null && echo same)" = "" ]

# More updates than the run began with: as if it had begun with them.
plan="$files --valid-every 4 --report-every 1 --warmup 2 --average 2 --hold-out 0"
# shellcheck disable=SC2086
begin whole $plan --updates 12
# shellcheck disable=SC2086
begin part $plan --updates 7
cp part/recipe.json before.json
resume part --updates 12 --report-every 3
check "--resume --updates: the same parameters" both 0 cmp whole/snapshots/00000012.safetensors part/snapshots/00000012.safetensors
check "--resume: what was changed is in the recipe" [ "$(value part updates) $(value part report-every)" = "12 3" ]
check "--resume: and nothing else" [ "$(diff before.json part/recipe.json | grep -c '^>')" = 2 ]
check "without validation: no BLEU" [ "$(cat out)" = "part: 12 updates" -a "$(reports valid part)" = 0 ]
check "without validation: a model, the last one, and why it is no average" says err '^the model is that of update 12: without validation'
cp part/model.safetensors last
resume part --keep-average
check "without validation, --keep-average: the average" both 0 says err '^the model is the average of the snapshots$'
check "without validation, --keep-average: another model" [ "$(cmp part/model.safetensors last >/dev/null && echo same)" = "" ]
"$tfm" info part >out 2>err
check "without validation: one that opens" [ -s part/model.safetensors ]
for way in "" --unigram; do # pieces that are drawn anew in each pass, of which there are some in so many updates
    # shellcheck disable=SC2086
    begin drawn $plan $way --updates 40 --subword-alpha 0.2 --buffer 50
    # shellcheck disable=SC2086
    begin drawn2 $plan $way --updates 17 --subword-alpha 0.2 --buffer 50
    resume drawn2 --updates 40
    check "--subword-alpha${way:+ with $way}: the same parameters" both 0 cmp drawn/snapshots/00000040.safetensors drawn2/snapshots/00000040.safetensors
    check "--subword-alpha${way:+ with $way}: more than one pass" says err "epoch 2 "
    rm -r drawn2
done
sed -i.all '/"dropout"/d' drawn/recipe.json
resume drawn --updates 50
check "--resume: an option that every run has" one_sentence 1 '"dropout" is missing or not what --dropout takes'
mv drawn/recipe.json.all drawn/recipe.json
sed -i '/subword-alpha/d' drawn/recipe.json # as an older program left it
resume drawn --updates 50 --report-every 1
check "--resume: an option that is younger than the run" both 0 says err '^update 50/50 '
check "--resume: and pieces as they always were" [ "$(value drawn subword-alpha)" = 0.0 ]
rm -r drawn
# Where a line's best pieces just fit, drawn ones do not always: it counts in each pass all the same.
for way in "" --strict; do
    # shellcheck disable=SC2086
    begin drawn $files --updates 60 --subword-alpha 0.3 --max-length 9 --hold-out 0 --average 0 $way
    check "--subword-alpha: pairs are judged by their best pieces${way:+, with $way}" both 0 says err 'epoch 4 '
done
begin apart $files --updates 2 --separate-vocab --hold-out 0 --average 0
check "--separate-vocab: of what the text gives" both 0 [ -s apart/target_vocab.json ]
check "--separate-vocab: one padding" [ "$(grep -h '<pad>' apart/vocab.json apart/target_vocab.json | sort -u)" = ' "<pad>": 2' ]
begin epochs $files --epochs 2 --updates 1000 --hold-out 0 --average 0
updates=$(sed -n 's/.*"reason":"epochs","update":\([0-9]*\),.*/\1/p' epochs/train.jsonl)
begin epochs2 $files --epochs 2 --updates 1000 --hold-out 0 --average 0 --accumulate $((updates / 2 + 1)) --report-every 1
check "--epochs with --accumulate: two updates, and nothing of a third pass" both 0 [ "$(
    sed -n 's/^{"type":"train","update":\([0-9]*\),"epoch":\([0-9]*\),.*/\1 \2/p' epochs2/train.jsonl | tail -n 1)" = "2 2" ]
check "--epochs" [ "$code" = 0 -a "$(sed -n 's/.*"reason":"\([a-z]*\)".*/\1/p' epochs/train.jsonl)" = epochs ]
for buffer in 60 240 200000; do # buffers that end with the text, one of just the text, and one with room to spare
    begin epochs2 $files --epochs 1 --updates 1000 --hold-out 0 --average 0 --buffer $buffer --report-every 1
    check "--epochs 1 --buffer $buffer: nothing is of epoch 2" \
        both 0 [ "$(sed -n 's/^{"type":"train",.*"epoch":\([0-9]*\),.*/\1/p' epochs2/train.jsonl | sort -u)" = 1 ]
done
begin patient $files --updates 1000 --valid-every 2 --patience 2 --rate 1e-9 --best-by ppl --average 0 --valid-beam 2 --valid-tokenize char \
    --valid-lowercase --rate 1
check "--patience" [ "$code" = 0 -a "$(sed -n 's/.*"reason":"\([a-z]*\)".*/\1/p' patient/train.jsonl)" = patience ]

# ---- What lies elsewhere when a run goes on
mkdir moved
cp text.de text.en moved
# shellcheck disable=SC2086
begin run --src moved/text.de --tgt moved/text.en --updates 2 --vocab whole --average 0
mv moved/text.de elsewhere.de
mv whole gone
resume run --updates 3
check "lost text: which option says where it is" one_sentence 1 \
    'moved/text.de: No such file or directory; if it lies elsewhere now, say where by --src FILE'
resume run --updates 3 --src elsewhere.de
check "text that has moved: --resume" [ "$code" = 0 ]
resume run --updates 4
check "a vocabulary that is gone: --resume" [ "$code" = 0 -a "$(value run vocab)" = '"../whole"' ]
mv gone whole

# ---- What a run refuses
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
for i in 1 2 3 4; do
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
check "it leaves nothing in the way" [ "$(ls run)" = "" ]
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
for file in recipe.json checkpoint.safetensors vocab.json source.spm; do
    for damage in 'head -c 50' 'sed s/[a-z]/#/g' 'head -c 0'; do
        cp -r run damaged
        $damage run/$file >damaged/$file
        resume damaged --updates 3
        check "--resume: $file damaged ($damage)" one_sentence 1 "damaged/$file"
        rm -r damaged
    done
done
cp run/checkpoint.safetensors right
cp epochs/checkpoint.safetensors run
sed 's/"note":"/"nose":"/; s/"checksum":/"checksuM":/; s/"sealed":/"sealeD":/' right >run/checkpoint.safetensors # no longer sealed
resume run --updates 3
check "--resume: a checkpoint that is not its own" one_sentence 1 'not written by tfm train'
for lost in snapshots snapshots/00000012.safetensors; do
    cp -r part damaged
    rm -r damaged/$lost
    resume damaged --updates 16
    check "--resume: $lost lost: said, and the average is without it" both 0 says err \
        '^damaged/snapshots/00000012.safetensors is not there any more: the average will be without it'
    rm -r damaged
done
cp -r part damaged
printf tfm | dd of=damaged/snapshots/00000012.safetensors bs=1 seek=9000 conv=notrunc 2>dd
resume damaged --updates 16 --valid-src valid.de --valid-tgt valid.en
check "--resume: a damaged snapshot: said, and the average is without it" both 0 says err \
    'snapshots/00000012.safetensors is damaged.*the average will be without it'
rm -r damaged
cp -r part damaged
rm damaged/checkpoint.safetensors
sed -i '/"type":"end"/d' damaged/train.jsonl
cp damaged/train.jsonl log
resume damaged --updates 30 --valid-every 1000 --report-every 3
check "--resume: a lost checkpoint" one_sentence 1 'damaged holds a run that came to update 12, but no checkpoint'
check "--resume: and its log is as it was" cmp damaged/train.jsonl log
cp part/checkpoint.safetensors damaged
resume damaged --updates 14 --valid-every 1000 --average 0
rm -r damaged/checkpoint.safetensors damaged/snapshots
sed -i '/"type":"end"/d' damaged/train.jsonl
resume damaged
check "--resume: a lost checkpoint, though the recipe has the first one later" one_sentence 1 'came to update 1'
rm -r damaged
rm run/checkpoint.safetensors
cp run/model.safetensors model
resume run --updates 3
check "--resume: an ended run without a checkpoint" one_sentence 1 'run holds a run that came to its end at update 2, but no checkpoint'
check "--resume: and its model is as it was" cmp run/model.safetensors model
rm run/train.jsonl
resume run --updates 3
check "--resume: without a checkpoint it begins again" [ "$code" = 0 -a "$(reports start run) $(reports end run)" = "1 1" ]
check "--resume: and says so" says err '^run has no checkpoint: the run begins again'
rm run/train.jsonl
resume run --updates 4
check "--resume: without a log it begins a new one" both 0 json_lines run/train.jsonl

# Validation may come to a run that had none, and be another one: the best so far is scored by it.
# shellcheck disable=SC2086
begin plain $files --hold-out 0 --updates 4 --valid-every 2 --average 0
resume plain --updates 8 --valid-src valid.de --valid-tgt valid.en --best-by ppl --patience 2
check "--resume: a first validation" both 0 says err '^validation is not what it was: the best so far, of update 4,'
check "--resume: a first validation finds a best" says err '^update 8  valid .*best so far'
resume plain --updates 10
check "--resume: the same validation is that" [ "$code" = 0 -a "$(grep -c 'validation is not what it was' err)" = 0 ]
sed 's/e/a/g' valid.en >harder.en
resume plain --updates 12 --valid-tgt harder.en
check "--resume: another validation" both 0 says err '^validation is not what it was: the best so far, of update 10,'

# shellcheck disable=SC2086
begin large $files --hold-out 0 --updates 1 --valid-every 1 --rate 15 --warmup 0 --average 0 --dropout 0
resume large --valid-src valid.de --valid-tgt valid.en --updates 3 --rate 1e-9 --clip 1
check "--resume: a best so far that has no finite perplexity" both 0 says err '^validation is not what it was: .* ppl inf'
# shellcheck disable=SC2086
begin large $files --valid-src valid.de --valid-tgt valid.en --updates 2 --valid-every 1 --rate 15 --warmup 0 --schedule constant --average 0 \
    --dropout 0
check "a validation with no finite perplexity: a model all the same" both 0 says err '^update 1  valid  ppl inf .*best so far'
check "and its nll" [ -s large/model.safetensors -a "$(grep '"type":"valid"' large/train.jsonl | grep -c '"nll":[0-9.]*,"ppl":null')" -gt 0 ]
resume large
check "and its checkpoint opens" both 0 says out '^large: 2 updates; best on validation: .* ppl '

# Reports begin where the one before ended, whatever was between.
plan="$files --hold-out 0 --valid-every 2 --report-every 3 --warmup 2 --average 0"
# shellcheck disable=SC2086
begin odd $plan --updates 8
# shellcheck disable=SC2086
begin odd2 $plan --updates 4
resume odd2 --updates 8
log odd >left
log odd2 >right
check "--resume between reports: the same reports" both 0 cmp left right

# shellcheck disable=SC2086
begin exact $files --updates 1 --average 0 --normalization identity
printf '\t\n \v\n' | "$tfm" translate -m exact --scores >out 2>err
check "blanks that its vocabulary does not know are no text" [ "$(wc -c <out)" = 2 ]

# shellcheck disable=SC2086
begin spoiled $files --hold-out 0 --updates 10 --valid-every 1 --rate 1e30 --warmup 0
check "spoiled parameters without a validation" one_last 1 'update 1: it left parameters with which the loss is .*there is no checkpoint yet'
check "spoiled parameters are not kept" [ ! -e spoiled/checkpoint.safetensors -a ! -e spoiled/model.safetensors ]

# shellcheck disable=SC2086
begin few $files --valid-src valid.de --valid-tgt valid.en --updates 4 --valid-every 1 --average 3
check "an average" both 0 says err '^update 4  average '
echo half >few/snapshots/00000001.safetensors.unfinished
echo half >few/config.json.unfinished
echo mine >few/thesis.unfinished
echo mine >few/result.tfm-abcdef
resume few --average 0
check "--resume --average 0: none any more" [ "$code $(grep -c '^update 4  average ' err)" = "0 0" ]
check "what a kill has left of a snapshot goes" [ ! -e few/snapshots/00000001.safetensors.unfinished -a ! -e few/config.json.unfinished ]
check "what is not the run's stays" [ -e few/thesis.unfinished -a -e few/result.tfm-abcdef ]

latin=$(printf 'm\374ll')
# shellcheck disable=SC2086
begin "$latin" $files --updates 2 --average 0
resume "$latin" --updates 3
check "a directory whose name is no UTF-8" [ "$code" = 0 -a -s "$latin/curves.svg" ]

# shellcheck disable=SC2086
attempt train -o other2 $small $files --vocab run --normalization identity
check "--vocab with what is for a new one" one_sentence 2 '--vocab is a vocabulary that is there'

# ---- Bad pairs
bad() { # LINE SOURCE TARGET: the text with another pair there
    { head -n $(($1 - 1)) text.de && printf "$2\n" && tail -n +$(($1 + 1)) text.de; } >bad.de
    { head -n $(($1 - 1)) text.en && printf "$3\n" && tail -n +$(($1 + 1)) text.en; } >bad.en
    paste bad.de bad.en >bad.tsv
}
many=$(awk 'BEGIN { for (i = 0; i < 80; i++) printf "eins " }')
quick="--updates 1 --average 0 --vocab run"
for kind in "empty::zero:the source is empty:1 with an empty side" "empty:eins:  :the target is empty:1 with an empty side" \
    "long:$many:one:the source has [0-9]* tokens, and max_length is 40:1 too long" "invalid:ei\\377ns:one:byte 3:1 invalid" "invalid:eins:o\\000ne:byte 2:1 invalid"; do
    IFS=: read -r name source target why said <<END
$kind
END
    bad 33 "$source" "$target"
    # shellcheck disable=SC2086
    begin bad --src bad.de --tgt bad.en $quick --max-length 40
    check "$name: left out and counted" both 0 says err "^227 pairs for training; left out: .*$said"
    # shellcheck disable=SC2086
    begin bad --src bad.de --tgt bad.en $quick --max-length 40 --strict
    check "$name: refused by --strict with its line" both 1 says err "^tfm: bad.de and bad.en, line 33: .*$why"
    check "$name: and the directory is free" [ "$(ls bad)" = "" ]
done
sed '33s/\t/ /' text.tsv >bad.tsv
# shellcheck disable=SC2086
begin bad --tsv bad.tsv $quick
check "no tab: left out and counted" both 0 says err "^227 pairs for training; left out: .* 1 invalid"
# shellcheck disable=SC2086
begin bad --tsv bad.tsv $quick --strict
check "no tab: refused by --strict with its line" both 1 says err "^tfm: bad.tsv, line 33: there is no tab"
check "before there is a recipe, the sentence names none" says err "; mend it, or leave --strict away"
sed '3s/\t/ /' valid.tsv >bad.tsv
# shellcheck disable=SC2086
begin bad --tsv text.tsv --valid-tsv bad.tsv $quick --strict
check "no tab in a line for validation: the same" one_sentence 1 'bad.tsv, line 3: there is no tab in it'
head -n 236 text.en >bad.en
# shellcheck disable=SC2086
begin bad --src text.de --tgt bad.en $quick
check "unequal files: counted" both 0 says err "225 pairs for training; left out: .* 4 without a partner"
# shellcheck disable=SC2086
begin bad --src text.de --tgt bad.en $quick --strict
check "unequal files: refused by --strict with the line" both 1 says err "text.de has more lines .* after line 236"
# shellcheck disable=SC2086
begin bad $files --valid-src valid.de --valid-tgt text.en $quick
check "unequal files of validation" one_sentence 1 'valid.de and text.en are not of equal length'
for side in de en; do
    sed "3s/\$/$(seq -s ' ' 50)/" valid.$side >long.$side
done
# shellcheck disable=SC2086
begin bad $files --valid-src long.de --valid-tgt valid.en $quick --positions 40 --max-length 40
check "long lines of validation: said" both 0 says err '^validation: 1 pairs have a side of more than 40 tokens, which is cut'
# shellcheck disable=SC2086
begin bad $files --valid-src valid.de --valid-tgt long.en $quick --positions 40 --max-length 40
check "long lines of validation: of the target too" both 0 says err '^validation: 1 pairs have a side of more than 40 tokens'
for what in 'zero:tr e \0' 'bytes:tr e \377'; do
    sed -n 3p valid.en | ${what#*:} >third
    { head -n 2 valid.en; cat third; tail -n +4 valid.en; } >bad.en
    # shellcheck disable=SC2086
    begin bad $files --valid-src valid.de --valid-tgt bad.en $quick --strict
    check "text for validation with ${what%:*}: refused with its side" one_sentence 1 'valid.de and bad.en, line 3: the target: '
done
printf '\0\0\n' >third
{ head -n 2 valid.en; cat third; tail -n +4 valid.en; } >bad.en
# shellcheck disable=SC2086
begin bad $files --valid-src valid.de --valid-tgt bad.en $quick --strict
check "text for validation of NULs alone: is not empty" one_sentence 1 'line 3: the target: byte 1 of the line is NUL'
sed '20s/.*//; 40s/.*//' text.de >bad.de
# shellcheck disable=SC2086
begin bad --src bad.de --tgt text.en $quick
check "bad pairs that are held out: counted there, and there alone" [ "$code" = 0 -a \
    "$(grep 'left out' err)" = "validation: 2 bad pairs of bad.de are left out" ]
# shellcheck disable=SC2086
begin bad --src bad.de --tgt text.en $quick --strict
check "bad pairs that are held out: refused by --strict" one_sentence 1 'bad.de and text.en, line 20: the source is empty'

bad 33 "" zero
small_buffers="--src bad.de --tgt bad.en --hold-out 0 --buffer 60 --average 0 --vocab run"
# shellcheck disable=SC2086
begin bad $small_buffers --updates 9 --valid-every 3
check "bad pairs: told while the pass is not over" both 0 says err '^[1-9][0-9]* pairs so far; left out: 1 with'
resume bad --updates 30
check "--resume within a pass: nothing is said of its rest, all of the next" both 0 [ "$(grep ' pairs ' err | grep -v validation)" = \
    "239 pairs for training; left out: 1 with an empty side, 0 too long, 0 invalid, 0 without a partner" ]
bad 200 "" zero
# shellcheck disable=SC2086
begin bad $small_buffers --updates 1000 --valid-every 2 --strict
check "refused by --strict in mid-run: the last good checkpoint" one_last 1 \
    'bad.de and bad.en, line 200: .*; the last good checkpoint is bad/checkpoint.safetensors, of update [1-9]'

# ---- Text and vocabularies of other kinds
begin tsv --tsv text.tsv --valid-tsv valid.tsv --updates 4 --valid-every 2
begin two $files --valid-src valid.de --valid-tgt valid.en --updates 4 --valid-every 2
check "--tsv: as two files" both 0 alike tsv two
check "--valid-src: no pair is held out" says err ' 10 pairs for validation'
begin given --tsv text.tsv --valid-tsv valid.tsv --updates 4 --valid-every 2 --vocab two
check "--vocab: as the one that it would make" both 0 alike given two
begin separate $files --updates 1 --separate-vocab --vocab-size 60
check "--separate-vocab" [ "$code" = 0 -a -s separate/target_vocab.json ]
run translate -m separate -i valid.de
check "--separate-vocab: the model translates" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
begin given $files --updates 1 --vocab separate
check "--vocab of two" [ "$code" = 0 ] && cmp separate/target.spm given/target.spm
for vocabulary in two/vocab.json separate/target_vocab.json; do # written by others: what pads is in the configuration
    cp -r ${vocabulary%/*} padless
    sed 's/"<pad>"/"<none>"/' $vocabulary >padless/${vocabulary#*/}
    begin given $files --updates 1 --vocab padless
    check "--vocab: ${vocabulary#*/} without <pad>" one_sentence 1 "padless/${vocabulary#*/} has no <pad>"
    rm -r padless
done
for option in '--unigram --vocab-size 70' '--normalization nfkc_cf' '--coverage 0.99 --vocab-lines 50'; do
    # shellcheck disable=SC2086
    begin other $files --updates 1 --average 0 $option
    check "$option" [ "$code" = 0 -a "$(cmp -s other/source.spm two/source.spm || echo others)" = others ]
done

# ---- Models and updates of other kinds
usual="$files --updates 4 --warmup 1 --average 0 --vocab two"
# shellcheck disable=SC2086
begin usual $usual
mv usual/model.safetensors before
for option in --pre-norm '--activation gelu' '--activation gelu-tanh' '--activation silu' '--init gaussian' '--init kaiming' \
    '--store f16' '--store bf16' '--schedule linear' '--schedule cosine' '--schedule constant' '--clip 0.5' '--weight-decay 0.1' \
    '--attention-dropout 0.1' '--activation-dropout 0.1' '--label-smoothing 0' '--beta1 0.8' '--beta2 0.9' '--epsilon 1e-3'; do
    # shellcheck disable=SC2086
    begin other $usual $option
    "$tfm" translate -m other -i valid.de >out 2>>err || code=$?
    check "$option: trains, and translates" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
    check "$option: makes a difference" [ "$(cmp -s other/model.safetensors before && echo same)" = "" ]
    cp other/model.safetensors before
done

# ---- What may run short
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

# ---- What goes wrong
begin wrong $files --updates 4 --valid-every 3 --average 0
resume wrong --updates 300 --rate 1e30
check "no number: the update, and the last good checkpoint" one_last 1 \
    'update 6: the loss is .*nan.*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
check "no number: none is in the log" json_lines wrong/train.jsonl
resume wrong --updates 300 --valid-every 5
check "no number at a validation: the same" one_last 1 \
    'update 5, validation: .*; the last good checkpoint is wrong/checkpoint.safetensors, of update 4'
begin wrong $files --updates 300 --rate 1e30
check "no number before the first checkpoint" one_last 1 'update 2: the loss is .*nan.*; there is no checkpoint yet'
resume wrong --rate 1e-3 --updates 3
check "no number: a lower rate" [ "$code" = 0 ]

echo "1..$count"
