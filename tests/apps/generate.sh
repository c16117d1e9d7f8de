# tfm generate on a small model of random parameters, without a tokenizer: prompts and texts are ids.
#     sh tests/apps/generate.sh PROGRAM SOURCE_ROOT MAKE_DECODER FAULT_LAYER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
maker=$(realpath "$3")
layer=$(realpath "$4")
. "$root/tests/checks.sh"
mkdir model
"$maker" model || exit 1
generate() {
    run generate -m model --ids --max-new 12 "$@"
}
words() {
    [ "$(wc -w <"$1")" = "$2" ]
}
differ() {
    ! cmp -s "$1" "$2"
}

# ---- One prompt
generate "10 11 12"
cp out one
check "a prompt as an argument: its ids, streamed" both 0 words one 12
printf '10 11\n12\n' >stdin
generate <stdin
check "all of standard input is one prompt" same out one
generate --temperature 0 --top-k 5 "10 11 12"
check "a temperature of 0 is greedy" same out one
generate -o file "10 11 12"
check "-o: a file" same file one
{
    "$tfm" generate -m model --ids --max-new 12 "10 11 12" 2>err
    echo $? >code
} | :
code=$(cat code)
check "a closed pipe ends a streamed text quietly, by SIGPIPE" [ "$code" = 141 -a ! -s err ]
if [ -w /dev/full ]; then
    for flags in "" --json "-o /dev/full"; do
        # shellcheck disable=SC2086 # words
        "$tfm" generate -m model --ids --max-new 12 $flags "10 11 12" >/dev/full 2>err
        code=$?
        check "a full disk is reported by generate $flags" one_sentence 1 'No space left'
    done
fi
generate --stats "10 11 12"
check "--stats: counts and times" both 0 says err '^stats {"prompts":1,"prompt_tokens":3,"new_tokens":12,.*"decode_seconds":0\.'
generate --max-new 100 "$(seq -s ' ' 3 32)"
check "the model's positions are the limit" both 0 words out 11
generate ""
check "an empty prompt begins with the model's first token" both 0 words out 12
generate 1
cp out first
generate ""
check "and with that alone" same out first

# ---- Several
printf '10 11 12\n20\n30 31 32 33 34 35\n' >lines
generate -i lines
cp out three
check "-i: a line for each line" both 0 [ "$(wc -l <three)" = 3 ]
head -n 1 three >head
check "with what each gets alone" cmp -s head one
generate "10 11 12" 20 "30 31 32 33 34 35"
check "arguments: the same" same out three
generate -i - <lines
check "-i -: lines of standard input" same out three
generate -i lines --batch-tokens 20
check "in batches of their own: the same" same out three
generate -i lines --beam 4 --n-best 2
check "--beam and --n-best: lines with index and score" both 0 [ "$(grep -c '^[012] ||| [0-9 ]* ||| -[0-9.]*$' out)" = 6 ]
generate -i lines --json
check "--json: an object a line" both 0 python3 -c '
import json
for line, ids in zip(open("out"), open("three")):
    one = json.loads(line)
    assert [t["id"] for t in one["tokens"]] == [int(i) for i in ids.split()], one
    assert abs(sum(t["log_prob"] for t in one["tokens"]) - one["log_prob"]) < 1e-3, one
    assert one["end"] in ("end", "length") and one["prompt_tokens"] in (3, 1, 6), one'

# ---- Drawing
generate -i lines --sample --seed 3
cp out drawn
generate -i lines --sample --seed 3 --batch-tokens 20
check "a seed draws the same, whatever the batch" same out drawn
generate -i lines --sample --seed 4
check "another seed draws otherwise" both 0 differ out drawn
generate -t 1.5 --n-best 5 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.2 "10 11 12"
check "five texts of one prompt" both 0 [ "$(cut -d' ' -f3-14 out | sort -u | wc -l)" = 5 ]

# ---- What is wrong
generate "10 x"
check "what is no id" one_sentence 1 'prompt 1: with --ids a prompt is whole numbers'
generate "10 50"
check "an id outside the vocabulary" both 1 says err 'prompt 1: .*the id 50; the vocabulary has 50'
printf '10 11 12\n%s\n20\n' "$(seq -s ' ' 3 45)" >long
generate -i long
check "a prompt longer than the positions: the others are written" \
    both 1 says err 'line 2: the prompt has 43 tokens, and the model has 40 positions: shorten it'
check "and it gets an empty line" [ "$(wc -l <out)" = 3 -a -z "$(sed -n 2p out)" ]
generate --beam 40 1
check "a beam too wide" one_sentence 2 'beam is 40: give 1 to 32'
generate --beam 2 --sample 1
check "a beam and drawing" one_sentence 2 'do not go together'
generate --n-best 3 1
check "--n-best without a beam" one_sentence 2 'more than the beam of 1'
generate --stop a 1
check "--stop with --ids" one_sentence 2 '--stop is text'
generate --top-p 1.5 --sample 1
check "--top-p above 1" one_sentence 2 '--top-p and --min-p are from 0 to 1'
generate --top-p 0 --sample 1
check "--top-p 0, which leaves nothing" one_sentence 2 '--top-p is 0'
generate --repetition-penalty 0 1
check "--repetition-penalty 0" one_sentence 2 '--repetition-penalty is above 0'
run generate --ids 1
check "no model" one_sentence 2 'give -m DIR'
run generate -m "$root/apps/demo" --ids 1
check "a model that translates" one_sentence 1 'does not go on with prompts'

# ---- Faults: whichever OpenCL call fails, the right texts come, or one sentence
fail_call() { # NUMBER SETTING...
    env OPENCL_LAYERS="$layer" "TFM_FAULT_CALL=$@" "$tfm" generate -m model --ids --max-new 12 -i lines --batch-tokens 60 >out 2>err
    code=$?
    if [ "$code" = 0 ]; then
        cmp -s out three
    else
        [ "$code" = 1 ] && [ "$(grep -vc '^tfm: warning: ' err)" = 1 ]
    fi
}
OPENCL_LAYERS=$layer TFM_FAULT_REPORT=report "$tfm" generate -m model --ids --max-new 12 -i lines --batch-tokens 60 >out 2>err
calls=$(sed -n 's/^calls //p' report)
wrong=
sample=24 step=5
brief && sample=8 step=15
i=1
while [ "$i" -le $sample ]; do
    fail_call $((calls * i / sample)) || wrong="$wrong $((calls * i / sample))"
    i=$((i + 1))
done
check "calls of $calls that fail:$wrong" [ "$calls" -gt 500 -a -z "$wrong" ]
buffers=$(sed -n 's/^clCreateBuffer //p' report)
wrong=
for i in $(seq 1 $step "$buffers"); do
    fail_call "$i" TFM_FAULT_NAME=clCreateBuffer TFM_FAULT_CODE=-4 || wrong="$wrong $i"
done
check "buffers of $buffers that there is no room for:$wrong" [ "$buffers" -gt 5 -a -z "$wrong" ]
echo "1..$count"
