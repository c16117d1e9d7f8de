# tfm chat: at a pseudo-terminal with and without libedit, from pipes, and its answers against those of tfm serve.
#     sh tests/apps/chat.sh PROGRAM SOURCE_ROOT PROGRAM_WITHOUT_LIBEDIT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
plain=$(realpath "$3")
. "$root/tests/checks.sh"
unoptimized
python3 "$root/tests/apps/chat_models.py" models || exit 1
chat() {
    run chat -m models/random --max-new-tokens 24 "$@"
}
differ() {
    [ "$code" = 0 ] && ! cmp -s "$1" "$2"
}
# answers FILE: the contents of its assistant messages, each with a line end
answers() {
    python3 -c 'import json, sys
print("".join(m["content"] + "\n" for m in json.load(open(sys.argv[1])) if m["role"] == "assistant"), end="")' "$1"
}

# ---- One question
chat "Say it." </dev/null
cp out one
check "chat QUESTION prints the answer" both 0 [ "$(wc -c <one)" -gt 1 ]
chat Say it. </dev/null
check "chat joins the words of a question" same out one
printf 'Say it.\n/save one.json\n' >lines
chat <lines
check "chat answers each line of standard input" same out one
answers one.json >kept
check "chat /save writes the answer that was printed" cmp -s kept one
printf 'A context.\r\n\n' >context
chat "Say it." <context
cp out with
printf '"""A context.\n\nSay it."""\n' >lines
chat <lines
check "chat QUESTION follows the text of standard input after a blank line" same out with
check "chat with a context answers differently" differ with one
chat --system "Be kind." "Say it." </dev/null
cp out kind
printf '/system Be kind.\n"""\nSay it.\n"""\n' >lines
chat <lines
check "chat --system equals /system" same out kind
check "chat with a system message answers differently" differ kind one
chat --chat-template-kwargs '{"mood": "x"}' "Say it." </dev/null
check "chat --chat-template-kwargs reaches the template" differ out one
chat -t 0 --top-k 5 "Say it." </dev/null
check "chat --temperature 0 is greedy" same out one
chat -t 2 --seed 1 "Say it." </dev/null
cp out first
chat -t 2 --seed 1 "Say it." </dev/null
check "chat with a seed repeats" same out first
chat -t 2 --seed 2 "Say it." </dev/null
check "chat with another seed gives another answer" differ out first
run chat -m models/says "Say it." </dev/null
check "chat writes the model's text to a file unchanged" both 0 [ "$(cat out)" = "$(printf 'Hi é€😀\033[0m!')" ]
run chat -m models/endless --stop "€" x </dev/null
check "chat --stop ends an answer before a string" both 0 [ "$(cat out)" = "Hi é" ]
run chat -m models/endless --max-new-tokens 5 x </dev/null
check "chat says that --max-new-tokens ends an answer" both 0 says err '^\[cut after 5 tokens: --max-new-tokens\]$'

printf 'one\ntwo\n/retry\n/undo\nthree\n' >lines
chat --kv-precision int8 --stats <lines
check "chat --kv-precision int8 keeps the KV cache between turns" both 0 [ "$(grep -c '"cached_tokens":[1-9]' err)" -ge 3 ]

# ---- Errors
printf 'one\n\377\376\nnever\n' >lines
chat <lines
check "chat ends at a message that is not UTF-8" both 1 says err 'not valid UTF-8'
printf '/load nowhere.json\nnever\n' >lines
chat <lines
check "chat ends at a command that fails" one_sentence 1 'cannot load nowhere.json'
chat "$(printf 'x%.0s' $(seq 2100))" </dev/null
check "chat refuses a question longer than the context" one_sentence 1 'the message is too long'
chat --ctx-size 5000 x </dev/null
check "chat refuses a context longer than the model's positions" one_sentence 1 'a context of 5000 tokens, and the model has 2048 positions: give at most as many'
chat --chat-template-kwargs '[1]' x </dev/null
check "chat refuses template variables that are no object" one_sentence 2 "--chat-template-kwargs is '[1]': give a JSON object"
chat --chat-template-kwargs x x </dev/null
check "chat refuses template variables that are not JSON" one_sentence 2 '--chat-template-kwargs is not JSON: line 1'
chat -t -1 x </dev/null
check "chat refuses a negative temperature" one_sentence 2 '--temperature is -1: give at least 0'
run chat x
check "chat without a model is a usage error" one_sentence 2 'no model is given: give -m MODEL'
cp -r models/random models/none
rm models/none/tokenizer_config.json
run chat -m models/none x </dev/null
check "chat refuses a model without a chat template" one_sentence 1 'has no chat template: use tfm generate'
run chat -m "$root/apps/demo" x </dev/null
check "chat refuses a translation model and names the command for it" one_sentence 1 'is an encoder-decoder model (marian): use tfm translate'
if [ -w /dev/full ]; then
    "$tfm" chat -m models/says x </dev/null >/dev/full 2>err
    code=$?
    check "chat reports a full disk" one_sentence 1 'No space left'
fi

# ---- A terminal
# terminal LABEL PROGRAM: the checks of chat_terminal.py
terminal() {
    python3 "$root/tests/apps/chat_terminal.py" "$2" models >tried 2>err
    code=$?
    while read -r line; do
        good=1
        case $line in "ok - "*) good=0 ;; esac
        check "${line#*ok - }, $1" [ $good = 0 ]
    done <tried
    check "all checks at a terminal have run, $1" [ "$code" = 0 ]
}
terminal "with the program's line editing" "$tfm"
terminal "without libedit" "$plain"

# ---- The server
if "$tfm" serve 2>&1 | grep -q libmicrohttpd-dev || ! command -v curl >/dev/null; then
    count=$((count + 1))
    echo "ok $count - chat gives the answers of tfm serve # SKIP no libmicrohttpd or no curl"
else
    . "$root/tests/serve/common.sh"
    start -m models/random
    check "chat gives the answers of tfm serve" python3 - "$at" <<'END'
import json, sys, urllib.request
messages = json.load(open("ten.json"))
for i in range(2, len(messages), 2):
    asked = {"model": "random", "messages": messages[:i], "temperature": 0, "max_tokens": 24}
    request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"})
    said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    assert said == messages[i]["content"], (i, said, messages[i])
assert len(messages) == 21
END
    stop
fi
echo "1..$count"
