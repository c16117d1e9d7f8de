# The command line without a model or a device: help, words that are nearly right, completion, readers that go.
#     sh tests/apps/usage.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
demo=$root/apps/demo
. "$root/tests/checks.sh"

# ---- Help, and words that are nearly right
run -V
check "-V: the version" [ "$code" = 0 -a "$(cat out)" = "$("$tfm" --version)" ]
run help
check "tfm help" both 0 says out '^  translate  '
run help translate
cp out want
run translate --help
check "tfm help COMMAND: its help" same out want
run trainslate
check "an unknown command: did you mean" one_sentence 2 'did you mean translate?'
run help devics
check "tfm help of one: the same" one_sentence 2 'did you mean devices?'
run frobnicate
check "one like none: nothing is meant" [ "$(grep -c 'did you mean' err)" = 0 ]
run translate -m "$demo" --scroes
check "an unknown option: did you mean" one_sentence 2 'did you mean --scores?'
run translate -m "$demo" --bogus
check "one like none: nothing is meant" one_sentence 2 'there is no option --bogus;'
run translate -m "$demo" file.txt
check "a file that is no option's: use -i" one_sentence 2 'use -i file.txt'
for command in translate "eval --src x --ref x"; do
    # shellcheck disable=SC2086
    run $command -m nowhere --beam 4000
    check "${command% --src*}: --beam 4000 before anything is read" one_sentence 2 'beam is 4000: give 1 to 32'
done

# ---- Completion
# complete WORD...: what bash offers for the last of these words
complete() {
    bash -c 'eval "$("$1" completion bash)"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tfm; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$tfm" tfm "$@" | sort | tr '\n' ' '
}
if command -v bash >/dev/null; then
    check "completion: bash knows tfm" [ "$(bash -c 'eval "$("$1" completion bash)"; complete -p tfm' bash "$tfm")" = \
        "complete -o filenames -F _tfm tfm" ]
    check "completion: commands" [ "$(complete s)" = "score selftest serve " ]
    check "completion: after help, too" [ "$(complete help tra)" = "train translate " ]
    check "completion: options" [ "$(complete translate --b)" = "--batch-tokens --beam " ]
    check "completion: choices" [ "$(complete translate --length-penalty '')" = "hf paper " ]
    check "completion: operands" [ "$(complete bench '')" = "attention gemm norm translate " ]
    mkdir -p completed && : >completed.txt
    check "completion: folders" [ "$(complete translate -m complet)" = "completed " ]
    check "completion: files" [ "$(complete translate -i complet)" = "completed completed.txt " ]
    check "completion: a number is nobody's guess" [ "$(complete translate --beam '')" = " " ]
    for name in $("$tfm" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        "$tfm" "$name" --help | sed -n 's/^  \(    \|-., \)\(--[a-z0-9-]*\).*/\2/p' | sort -u >want
        complete "$name" -- | tr ' ' '\n' | grep . | sort | cmp -s - want || echo "$name"
    done >incomplete
    check "completion: all options of all commands" [ ! -s incomplete ]
fi
"$tfm" completion zsh >_tfm 2>err
check "completion: no command takes it for a run" [ ! -s err ]
check "completion: zsh's has them as well" grep -q -- "--length-penalty\[.*\]:value:(paper hf)'" _tfm
if command -v zsh >/dev/null; then
    check "completion: zsh can read it" zsh -n _tfm
fi
run completion fish
check "completion of another shell is refused" one_sentence 2 "'fish'"


# ---- Readers and writers
{ sleep 1; "$tfm" --help 2>err; } | true
check "a reader that has gone is no mistake to tell of" [ ! -s err ]
# Buffered by the line or not at all, a write fails long before the output is closed.
for buffer in 0 L; do
    { sleep 1; ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" stdbuf -o$buffer "$tfm" completion zsh 2>err; echo $? >code; } | true
    check "a reader that has gone ends a program with stdbuf -o$buffer quietly, by SIGPIPE" [ "$(cat code)" = 141 -a ! -s err ]
    [ ! -w /dev/full ] || {
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" stdbuf -o$buffer "$tfm" completion zsh >/dev/full 2>err
        code=$?
        check "a full disk is reported with stdbuf -o$buffer" one_sentence 1 'cannot write standard output: No space left'
    }
done
# What a command that reads lines says to a terminal, and to a pipe.
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
check "a terminal is told that it is waited for" grep -q 'reading lines from this terminal; end with Ctrl-D' screen
run eval --hyp - --ref "$demo/greedy.en" </dev/null
check "who pipes is not" [ "$(grep -c 'terminal' err)" = 0 ]

# Rows fit a terminal of 80 columns, broken at words; elsewhere each is one line.
: >in
run devices
cp out rows
in_terminal 80 devices
check "devices: rows fit the terminal" [ "$code" = 0 -a "$(awk 'length > 80' screen | wc -l)" = 0 ]
check "and say the same" [ "$(tr -s ' \n' ' ' <screen | sed 's/ $//')" = "$(tr -s ' \n' ' ' <rows | sed 's/ $//')" ]
check "to a pipe, the device is on one line" grep -q '^\* .*(.*)$' rows

# ---- Text without spaces
python3 -c "print('\\n'.join(''.join(chr(0x4e00 + (7 * i + j) % 300) for j in range(15)) for i in range(20)))" >unspaced
run eval --hyp unspaced --ref unspaced
check "eval: a text without spaces: --tokenize char" says err 'written without spaces.*--tokenize char'
run eval --hyp unspaced --ref unspaced --tokenize char
check "eval: with it, nothing is said" [ "$code" = 0 -a ! -s err ]
python3 -c "print('\\n'.join(chr(0x4e00 + i) * 4 + chr(0x3042) * 3 + '\u3002' for i in range(20)))" >unspaced
run eval --hyp unspaced --ref unspaced
check "eval: short lines without spaces, too" says err 'written without spaces.*--tokenize char'
python3 -c "print('\\n'.join('www.tfm.example/Donaudampfschiff/%d' % i for i in range(20)))" >words
run eval --hyp words --ref words
check "eval: long words are no such text" [ "$code" = 0 -a ! -s err ]
run eval --hyp "$demo/greedy.en" --ref "$demo/greedy.en"
check "eval: nor of a text with spaces" [ "$code" = 0 -a ! -s err ]
echo "1..$count"
