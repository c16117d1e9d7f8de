# tfm generate with a small random model without a tokenizer: prompts and texts are ids.
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
    run generate -m model --token-ids --max-new-tokens 12 "$@"
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
check "generate --token-ids streams the ids of a prompt given as an argument" both 0 words one 12
printf '10 11\n12\n' >stdin
generate <stdin
check "generate reads all of standard input as one prompt" same out one
generate --temperature 0 --top-k 5 "10 11 12"
check "generate --temperature 0 is greedy" same out one
generate -o file "10 11 12"
check "generate -o writes the text to a file" same file one
{
    "$tfm" generate -m model --token-ids --max-new-tokens 12 "10 11 12" 2>err
    echo $? >code
} | :
code=$(cat code)
check "generate ends quietly by SIGPIPE when the reader has closed the pipe" [ "$code" = 141 -a ! -s err ]
if [ -w /dev/full ]; then
    for flags in "" --json "-o /dev/full"; do
        # shellcheck disable=SC2086 # words
        "$tfm" generate -m model --token-ids --max-new-tokens 12 $flags "10 11 12" >/dev/full 2>err
        code=$?
        check "generate $flags reports a full disk" one_sentence 1 'No space left'
    done
fi
generate --stats "10 11 12"
check "generate --stats prints counts and times" both 0 says err '^stats {"prompts":1,"prompt_tokens":3,"new_tokens":12,.*"decode_seconds":0\.'
generate --max-new-tokens 100 "$(seq -s ' ' 3 32)"
check "generate stops at the model's maximum position" both 0 words out 11
generate ""
check "generate of an empty prompt starts from the model's first token" both 0 words out 12
generate 1
cp out first
generate ""
check "generate of an empty prompt equals a prompt of the first token" same out first

# ---- The KV cache
generate --kv-precision fp32 "10 11 12"
check "generate --kv-precision fp32 is the default" same out one
generate --json "10 11 12"
cp out exact.json
generate --json --kv-precision int8 "10 11 12"
check "generate --kv-precision int8 changes log probabilities by less than 5 %" both 0 python3 -c '
import json
a, b = (json.loads(open(name).readline())["tokens"] for name in ("exact.json", "out"))
assert a != b and abs(a[0]["log_prob"] - b[0]["log_prob"]) < 0.05 * abs(a[0]["log_prob"])'
generate --kv-precision int8 --beam-size 3 --n-best 3 "10 11 12"
check "generate --kv-precision int8 goes with a beam" both 0 [ "$(wc -l <out)" = 3 ]
generate --kv-precision int4 "10 11 12"
check "generate --kv-precision int4 is a usage error" one_sentence 2 'auto|fp32|fp16|bf16|int8'
generate --ctx-size 9 --max-new-tokens 100 "10 11 12"
check "generate stops at the context size" both 0 words out 7
generate --ctx-size 3 "10 11 12 13"
check "generate refuses a prompt longer than the context" one_sentence 1 'has 4 tokens, and the context has 3: shorten it'
generate --ctx-size 4000 "10 11 12"
check "generate refuses a context longer than the model's positions" one_sentence 1 'a context of 4000 tokens, and the model has 40 positions'

# ---- Several prompts
printf '10 11 12\n20\n30 31 32 33 34 35\n' >lines
generate -i lines
cp out three
check "generate -i prints one line for each prompt" both 0 [ "$(wc -l <three)" = 3 ]
head -n 1 three >head
check "generate -i gives each prompt the text that it gets alone" cmp -s head one
generate "10 11 12" 20 "30 31 32 33 34 35"
check "generate of several arguments equals generate -i" same out three
generate -i - <lines
check "generate -i - reads prompts from standard input" same out three
generate -i lines --batch-tokens 20
check "generate in batches of one prompt gives the same texts" same out three
generate -i lines --beam-size 4 --n-best 2
check "generate --beam-size --n-best prints index, text and score" both 0 [ "$(grep -c '^[012] ||| [0-9 ]* ||| -[0-9.]*$' out)" = 6 ]
generate -i lines --json
check "generate --json prints one object a line" both 0 python3 -c '
import json
for line, ids in zip(open("out"), open("three")):
    one = json.loads(line)
    assert [t["id"] for t in one["tokens"]] == [int(i) for i in ids.split()], one
    assert abs(sum(t["log_prob"] for t in one["tokens"]) - one["log_prob"]) < 1e-3, one
    assert one["end"] in ("end", "length") and one["prompt_tokens"] in (3, 1, 6), one'

# ---- Sampling
generate -i lines --sample --seed 3
cp out sampled
generate -i lines --sample --seed 3 --batch-tokens 20
check "generate with one seed samples the same for any batch size" same out sampled
generate -i lines --sample --seed 4
check "generate with another seed samples other texts" both 0 differ out sampled
generate -t 1.5 --n-best 5 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.2 "10 11 12"
check "generate --n-best with sampling gives five texts of one prompt" both 0 [ "$(cut -d' ' -f3-14 out | sort -u | wc -l)" = 5 ]

# ---- Errors
generate "10 x"
check "generate --token-ids rejects a prompt that is not whole numbers" one_sentence 1 'prompt 1: with --token-ids a prompt is whole numbers'
generate "10 50"
check "generate --token-ids rejects an id outside the vocabulary" both 1 says err 'prompt 1: .*the id 50; the vocabulary has 50'
printf '10 11 12\n%s\n20\n' "$(seq -s ' ' 3 45)" >long
generate -i long
check "generate rejects a prompt longer than the context and generates the others" \
    both 1 says err 'line 2: the prompt has 43 tokens, and the model has 40 positions: shorten it'
check "generate prints an empty line for a rejected prompt" [ "$(wc -l <out)" = 3 -a -z "$(sed -n 2p out)" ]
yes 10 | head -600 >many
echo x >>many
generate -i many --max-new-tokens 1 -o file
check "generate -i writes texts before all are generated, and names the line of a bad prompt" [ "$code" = 1 -a "$(wc -l <file.partial)" = 512 -a \
    -n "$(grep 'line 601: with --token-ids a prompt is whole numbers' err)" ]
generate --beam-size 40 1
check "generate --beam-size above 32 is a usage error" one_sentence 2 'beam-size is 40: give 1 to 32'
generate --beam-size 2 --sample 1
check "generate with beam search and sampling is a usage error" one_sentence 2 'do not go together'
generate --n-best 3 1
check "generate with --n-best above --beam-size is a usage error" one_sentence 2 'more than the beam of 1'
generate --stop a 1
check "generate --stop with --token-ids is a usage error" one_sentence 2 '--stop is text'
generate --top-p 1.5 --sample 1
check "generate --top-p above 1 is a usage error" one_sentence 2 '--top-p is 1.5: give more than 0, at most 1'
generate --top-p 0 --sample 1
check "generate --top-p 0 is a usage error" one_sentence 2 '--top-p is 0'
generate --repetition-penalty 0 1
check "generate --repetition-penalty 0 is a usage error" one_sentence 2 '--repetition-penalty is 0: give more than 0'
generate --min-p -0.5 1
check "generate with a negative --min-p is a usage error" one_sentence 2 '--min-p is -0.5: give 0 to 1'
generate --beam-size 2 --length-penalty -99 1
check "generate --length-penalty below -10 is a usage error" one_sentence 2 '--length-penalty is -99: give -10 to 10'
generate -i nowhere
check "generate -i names a file that does not exist" one_sentence 1 'cannot read -i nowhere: No such file or directory; give a readable file'
run generate --token-ids 1
check "generate without -m is a usage error" one_sentence 2 'give -m MODEL'
run generate -m "$root/apps/demo" --token-ids 1
check "generate refuses a translation model" one_sentence 1 'is an encoder-decoder model (marian): use tfm translate'
run generate -m "$root/apps/demo" -i /dev/null
check "generate without a prompt refuses a translation model" one_sentence 1 'is an encoder-decoder model (marian): use tfm translate'

# ---- Penalties and grammars
cp -r model words
python3 "$root/tests/serve/make_words.py" words
"$tfm" generate -m words --max-new-tokens 12 w10 >plain
"$tfm" generate -m words --max-new-tokens 12 --presence-penalty 3 --frequency-penalty 1 w10 >penalized
check "generate --presence-penalty --frequency-penalty repeats fewer tokens" \
    [ "$(tr ' ' '\n' <penalized | sort -u | wc -l)" -gt "$(tr ' ' '\n' <plain | sort -u | wc -l)" ]
"$tfm" generate -m words --max-new-tokens 30 w10 w11 >plain
"$tfm" generate -m words --max-new-tokens 30 --prompt-lookup-num-tokens 3 w10 w11 >looked
check "generate --prompt-lookup-num-tokens writes the same texts" cmp -s plain looked
echo 'root ::= " w5"? (" w20 w21" | " w10")+ " w4"' >words.gbnf
"$tfm" generate -m words --max-new-tokens 30 -t 1.5 --n-best 4 --grammar words.gbnf w10 >out 2>err
check "generate --grammar writes texts of the grammar" [ "$(grep -cE '^0 \|\|\|  (w5 )?((w20 w21|w10) )+w4 </s> \|\|\| ' out)" = 4 ]
"$tfm" generate -m words --json-schema '{"enum": [1]}' w10 >out 2>err
check "generate --json-schema ends a text that no token continues" [ "$?" = 0 -a ! -s err -a "$(cat out)" = "" ]
echo '{"type": "widget"}' >schema.json
for option in '--json-schema schema.json' '--json-schema {"if":1}' '--grammar nothing' '--grammar schema.json'; do
    # shellcheck disable=SC2086 # words
    "$tfm" generate -m words $option w10 >out 2>err
    code=$?
    check "generate $option fails with one sentence" one_sentence 1 "tfm: ${option%% *}: "
done
"$tfm" generate -m words --json-schema '{}' --grammar words.gbnf w10 >out 2>err
code=$?
check "generate --json-schema --grammar is a usage error" one_sentence 2 'do not go together'
"$tfm" generate -m words --beam-size 2 --grammar words.gbnf w10 >out 2>err
code=$?
check "generate --beam-size --grammar is a usage error" one_sentence 2 'do not go with beam search'

# ---- Faults: if any OpenCL call fails, the texts are right, or there is one error message
fail_call() { # NUMBER SETTING...
    env OPENCL_LAYERS="$layer" "TFM_FAULT_CALL=$@" "$tfm" generate -m model --token-ids --max-new-tokens 12 -i lines --batch-tokens 60 >out 2>err
    code=$?
    if [ "$code" = 0 ]; then
        cmp -s out three
    else
        [ "$code" = 1 ] && [ "$(grep -vc '^tfm: warning: ' err)" = 1 ]
    fi
}
OPENCL_LAYERS=$layer TFM_FAULT_REPORT=report "$tfm" generate -m model --token-ids --max-new-tokens 12 -i lines --batch-tokens 60 >out 2>err
calls=$(sed -n 's/^calls //p' report)
wrong=
sample=24 step=5
brief && sample=8 step=15
i=1
while [ "$i" -le $sample ]; do
    fail_call $((calls * i / sample)) || wrong="$wrong $((calls * i / sample))"
    i=$((i + 1))
done
check "generate survives each of $calls failing OpenCL calls; wrong:$wrong" [ "$calls" -gt 500 -a -z "$wrong" ]
buffers=$(sed -n 's/^clCreateBuffer //p' report)
wrong=
for i in $(seq 1 $step "$buffers"); do
    fail_call "$i" TFM_FAULT_NAME=clCreateBuffer TFM_FAULT_CODE=-4 || wrong="$wrong $i"
done
check "generate survives each of $buffers failing buffer allocations; wrong:$wrong" [ "$buffers" -gt 5 -a -z "$wrong" ]
echo "1..$count"
