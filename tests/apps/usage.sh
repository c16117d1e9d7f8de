# The command line without a model or a device: help, suggestions, completion, closed pipes.
#     sh tests/apps/usage.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
demo=$root/apps/demo
. "$root/tests/checks.sh"

# ---- Help and suggestions
run -V
check "tfm -V prints the version" [ "$code" = 0 -a "$(cat out)" = "$("$tfm" --version)" ]
run help
check "tfm help lists the commands" both 0 says out '^  translate  '
check "tfm help separates commands and descriptions by at least two blanks" [ "$(sed -n '/^commands/,/^$/p' out | grep -c '^  [a-z]* [a-z]')" = 0 ]
run help translate
cp out want
run translate --help
check "tfm help COMMAND prints the command's help" same out want
run trainslate
check "a misspelled command is an error that suggests the right one" one_sentence 2 'did you mean translate?'
run help devics
check "tfm help with a misspelled command suggests the right one" one_sentence 2 'did you mean devices?'
run frobnicate
check "a command unlike any other gets no suggestion" [ "$(grep -c 'did you mean' err)" = 0 ]
run translate -m "$demo" --scroes
check "a misspelled option is an error that suggests the right one" one_sentence 2 'did you mean --scores?'
run translate -m "$demo" --bogus
check "an option unlike any other gets no suggestion" one_sentence 2 'there is no option --bogus;'
run translate -m "$demo" file.txt
check "a file given as an argument is an error that suggests -i" one_sentence 2 'use -i file.txt'
for missing in attention:TEXT info:MODEL quantize:MODEL; do
    run "${missing%:*}"
    check "${missing%:*} without ${missing#*:} is a usage error that names it" one_sentence 2 "no ${missing#*:} is given;"
done
run completion
check "completion without a shell is a usage error that lists the shells" one_sentence 2 'give one of bash|zsh;'
for command in translate "eval --src x --ref x"; do
    # shellcheck disable=SC2086
    run $command -m nowhere --beam-size 4000
    check "${command% --src*} rejects --beam-size 4000 before it reads anything" one_sentence 2 'beam-size is 4000: give 1 to 32'
done

# ---- Former option names, names in other programs, and aliases
shown=
for renamed in translate:alpha:length-penalty generate:alpha:length-penalty generate:ids:token-ids \
    generate:max-new:max-new-tokens generate:min-new:min-new-tokens score:end:score-eos embed:top:top-k \
    train:accumulate:gradient-accumulation-steps train:best-by:best-metric train:block:seq-len train:buffer:buffer-size \
    train:clip:max-grad-norm train:coverage:character-coverage train:deal:balance train:ffn:ffn-dim train:from:init-from \
    train:positions:max-positions train:rate:learning-rate train:recompute:gradient-checkpointing \
    train:report-every:logging-steps train:schedule:lr-scheduler-type train:shard:shard-optimizer train:store:save-dtype \
    train:updates:max-steps train:valid-beam:valid-beam-size train:valid-every:eval-steps train:warmup:warmup-steps \
    train:wire:comm-dtype; do
    command=${renamed%%:*} name=${renamed##*:} former=${renamed#*:}
    former=${former%:*}
    run "$command" "--$former" 1
    check "$command --$former is a usage error that names --$name" one_sentence 2 "unknown option --$former: it is now --$name;"
    "$tfm" help "$command" | grep -qE -- "^  +(-., )?--$former( |\$)" && shown="$shown $command --$former"
done
check "help shows no former name of an option" [ "$shown" = "" ]
run train --wire=bf16
check "train --wire=bf16 is a usage error that names --comm-dtype" one_sentence 2 'unknown option --wire: it is now --comm-dtype;'
run generate --max-new
check "generate --max-new without a value is a usage error that names --max-new-tokens" one_sentence 2 'unknown option --max-new: it is now --max-new-tokens;'
for foreign in translate:num_beams:beam-size translate:num-beams:beam-size translate:max_length:max-length \
    translate:num_hypotheses:n-best translate:compute_type:precision generate:max_new_tokens:max-new-tokens \
    generate:max_length:max-new-tokens generate:do_sample:sample generate:top_k:top-k \
    generate:num_return_sequences:n-best generate:n-predict:max-new-tokens train:per_device_train_batch_size:batch-tokens \
    train:num_train_epochs:epochs train:learning_rate:learning-rate train:output_dir:out train:valid_every:eval-steps \
    translate:max_new_tokens:max-length translate:max-new-tokens:max-length translate:threads:workers \
    train:tokenizer:vocab quantize:type:precision quantize:dtype:precision generate:draw:sample \
    embed:normalize_embeddings:normalize; do
    command=${foreign%%:*} name=${foreign##*:} other=${foreign#*:}
    other=${other%:*}
    run "$command" "--$other" 1
    check "$command --$other is a usage error that names --$name" one_sentence 2 "unknown option --$other: use --$name;"
done
for foreign in translate:fp16:fp16 train:fp16:bf16 train:bf16:bf16 embed:half:fp16 quantize:int8:int8; do
    command=${foreign%%:*} value=${foreign##*:} other=${foreign#*:}
    other=${other%:*}
    run "$command" "--$other"
    check "$command --$other is a usage error that names a precision of the command" one_sentence 2 "unknown option --$other: use --precision $value;"
done
for foreign in generate:--prompt:PROMPT generate:-p:PROMPT "generate:-f:-i FILE" info:--model:MODEL quantize:-m:MODEL; do
    command=${foreign%%:*} use=${foreign##*:} other=${foreign#*:}
    other=${other%:*}
    run "$command" "$other" a
    check "$command $other is a usage error that names $use" one_sentence 2 "unknown option $other: give $use"
done
run translate --prompt a
check "translate --prompt is a usage error without the advice for tfm generate" one_sentence 2 'there is no option --prompt;'
run bench gemm --variant wide-16
check "bench --variant with an unknown name lists the variants" one_sentence 2 "no variant 'wide-16': give some of cpu-512, cpu-256, "
run bench gemm --provider plain
check "bench --provider with an unknown name lists the providers" one_sentence 2 "no provider 'plain': give some of cpu-skinny, cpu-bf16, "
run translate -m "$demo" --length-penalty hf
check "translate --length-penalty hf is a usage error that names --length-norm" one_sentence 2 'the formula is chosen by --length-norm'
run generate --stop --ids
check "generate --stop takes a former option name as its value" one_sentence 2 'no model is given'
for alias in "-k 2" "-k2" "--beam 2" "--beam=2" "--beam-s 2"; do
    # shellcheck disable=SC2086
    run translate -m "$demo" $alias --n-best 3
    check "translate $alias is an alias of --beam-size" one_sentence 2 '--n-best is 3, more than --beam-size 2'
done
run translate -a nan
check "translate -a is an alias of --length-penalty" one_sentence 2 "length-penalty is 'nan'"
run train --lr nan
check "train --lr is an alias of --learning-rate" one_sentence 2 "learning-rate is 'nan'"
run help attend
cp out want
run help attention
check "tfm help attend prints the help of tfm attention" both 0 same out want
for command in translate eval generate serve train; do
    "$tfm" help $command
done >out
check "help shows no alias of an option" [ "$(grep -cE -- '--(beam|lr)( |$)|^  -[ka],' out)" = 0 ]
run help
check "help shows no alias of a command" [ "$(grep -c 'attend ' out)" = 0 ]

# ---- Completion
# complete WORD...: the completions that bash offers for the last word
complete() {
    bash -c 'eval "$("$1" completion bash)"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tfm; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$tfm" tfm "$@" | sort | tr '\n' ' '
}
if command -v bash >/dev/null; then
    check "bash completion is registered for tfm" [ "$(bash -c 'eval "$("$1" completion bash)"; complete -p tfm' bash "$tfm")" = \
        "complete -o filenames -F _tfm tfm" ]
    check "bash completion offers commands" [ "$(complete s)" = "score selftest serve " ]
    check "bash completion offers commands after help" [ "$(complete help tra)" = "train translate " ]
    check "bash completion offers options" [ "$(complete translate --b)" = "--batch-tokens --beam-size " ]
    check "bash completion offers the values of an option" [ "$(complete translate --length-norm '')" = "hf paper " ]
    check "bash completion offers operands" [ "$(complete bench '')" = "attention gemm generate norm translate " ]
    mkdir -p completed && : >completed.txt
    check "bash completion offers directories for -m" [ "$(complete translate -m complet)" = "completed " ]
    check "bash completion offers files for -i" [ "$(complete translate -i complet)" = "completed completed.txt " ]
    check "bash completion offers nothing for a number" [ "$(complete translate --beam-size '')" = " " ]
    for name in $("$tfm" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        "$tfm" "$name" --help | sed -n 's/^  \(    \|-., \)\(--[a-z0-9-]*\).*/\2/p' | sort -u >want
        complete "$name" -- | tr ' ' '\n' | grep . | sort | cmp -s - want || echo "$name"
    done >incomplete
    check "bash completion knows all options of all commands" [ ! -s incomplete ]
fi
"$tfm" completion zsh >_tfm 2>err
check "completion zsh prints nothing on stderr" [ ! -s err ]
check "zsh completion offers the values of an option" grep -q -- "--length-norm\[.*\]:value:(paper hf)'" _tfm
if command -v zsh >/dev/null; then
    check "zsh completion is valid zsh" zsh -n _tfm
fi
run completion fish
check "completion for another shell is a usage error" one_sentence 2 "'fish'"


# ---- Pipes and terminals
{ sleep 1; "$tfm" --help 2>err; } | true
check "tfm --help prints no error when the reader has closed the pipe" [ ! -s err ]
# With line buffering or none, a write fails before the output is closed.
for buffer in 0 L; do
    { sleep 1; ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" stdbuf -o$buffer "$tfm" completion zsh 2>err; echo $? >code; } | true
    check "completion ends quietly by SIGPIPE with stdbuf -o$buffer when the reader has closed the pipe" [ "$(cat code)" = 141 -a ! -s err ]
    [ ! -w /dev/full ] || {
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" stdbuf -o$buffer "$tfm" completion zsh >/dev/full 2>err
        code=$?
        check "completion reports a full disk with stdbuf -o$buffer" one_sentence 1 'cannot write standard output: No space left'
    }
done
# Messages of a command that reads lines, on a terminal and on a pipe.
python3 - "$tfm" "$demo" <<'END' >screen
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], [sys.argv[1], "eval", "--hyp", "-", "--ref", sys.argv[2] + "/greedy.en"])
text = b""
try:
    while True:
        text += os.read(terminal, 4096)
        if b"Ctrl-D" in text:
            os.write(terminal, b"\x04")
except OSError:
    pass
os.waitpid(child, 0)
print(text.decode())
END
check "eval that waits for lines from a terminal says so" grep -q 'reading lines from this terminal; end with Ctrl-D' screen
run eval --hyp - --ref "$demo/greedy.en" </dev/null
check "eval that reads from a pipe says nothing of a terminal" [ "$(grep -c 'terminal' err)" = 0 ]

# On a terminal rows are wrapped to 80 columns at words; otherwise each is one line.
: >in
run devices
cp out rows
in_terminal 80 devices
check "devices fits its rows to the width of a terminal" [ "$code" = 0 -a "$(awk 'length > 80' screen | wc -l)" = 0 ]
check "devices prints the same words to a terminal and to a pipe" [ "$(tr -s ' \n' ' ' <screen | sed 's/ $//')" = "$(tr -s ' \n' ' ' <rows | sed 's/ $//')" ]
check "devices prints one line a device to a pipe" grep -q '^\* .*(.*)$' rows

# ---- Text without spaces
python3 -c "print('\\n'.join(''.join(chr(0x4e00 + (7 * i + j) % 300) for j in range(15)) for i in range(20)))" >unspaced
run eval --hyp unspaced --ref unspaced
check "eval of a text without spaces suggests --tokenize char" says err 'written without spaces.*--tokenize char'
run eval --hyp unspaced --ref unspaced --tokenize char
check "eval --tokenize char of a text without spaces prints no hint" [ "$code" = 0 -a ! -s err ]
python3 -c "print('\\n'.join(chr(0x4e00 + i) * 4 + chr(0x3042) * 3 + '\u3002' for i in range(20)))" >unspaced
run eval --hyp unspaced --ref unspaced
check "eval of short lines without spaces suggests --tokenize char" says err 'written without spaces.*--tokenize char'
python3 -c "print('\\n'.join('www.tfm.example/Donaudampfschiff/%d' % i for i in range(20)))" >words
run eval --hyp words --ref words
check "eval of long words prints no hint" [ "$code" = 0 -a ! -s err ]
run eval --hyp "$demo/greedy.en" --ref "$demo/greedy.en"
check "eval of a text with spaces prints no hint" [ "$code" = 0 -a ! -s err ]
echo "1..$count"
