# tfm train --text on documents of several lines; and --from with the model's own dropout, files and small steps.
. "$(dirname "$0")/common.sh"

small="--width 32 --heads 4 --ffn 64 --decoder-layers 1 --batch-tokens 128 --block 16"
plan="--updates 6 --valid-every 3 --report-every 2 --warmup 2 --rate 0.01 --average 2"

# ---- The same documents in five forms
python3 - <<'X'
import json
lines = open("text.en").read().split("\n")[:-1]
texts = ["\n".join(lines[i:i + 3]) for i in range(0, 240, 3)]
open("lines", "w").write("".join(t.replace("\n", " ") + "\n" for t in texts))
open("own.txt", "w").write("".join(t + "\n<|end|>\n" for t in texts))
open("within.txt", "wb").write(b"\xef\xbb\xbf<|end|>" + "<|end|>".join(t.replace("\n", "\r\n") for t in texts).encode())
open("blank.txt", "w").write("\n" + "\n\n \n".join(texts))
open("texts.jsonl", "w").write("".join(json.dumps({"id": 10 ** 40, "text": t, "more": [{}]}) + "\n" for t in texts))
X
# shellcheck disable=SC2086 # words, here and below
begin own --text own.txt --separator '<|end|>' $plan
check "--separator on a line of its own: documents are counted" both 0 says err '^76 texts for training$'
check "--separator: some of them are held out" says err ' 4 texts for validation$'
check "--separator: no warning where it is found" [ "$(grep -c 'is nowhere' err)" = 0 ]
check "--separator: it is no part of the vocabulary" [ "$(grep -c '<|\|end|' own/tokenizer.json)" = 0 ]
begin within --text within.txt --separator '<|end|>' $plan
check "--separator within lines, CR LF and a byte order mark: the same bits" both 0 alike own within
begin blank --text blank.txt --separator '\n\n' $plan
check "--separator of line ends is a blank line: the same bits" both 0 alike own blank
begin json --text texts.jsonl $plan
check "a file named .jsonl holds JSON objects: the same bits" both 0 alike own json
check "--jsonl: the recipe has it" [ "$(value json jsonl)" = true ]
cp texts.jsonl texts.txt
begin named --text texts.txt --jsonl $plan
check "--jsonl: of any file" both 0 alike own named
begin cut --text own.txt --separator '<|end|>' $plan --updates 4
resume cut --updates 6
check "--resume within documents: as if it had never stopped" both 0 cmp own/snapshots/00000006.safetensors \
    cut/snapshots/00000006.safetensors
begin valid --text texts.jsonl --valid-text texts.jsonl $plan
check "--valid-text is of the same form" both 0 says err ' 80 texts for validation$'

# ---- What is none
{ head -n 2 texts.jsonl && echo '{"txt": "a"}' && echo && echo '["text"]'; } >bad.jsonl
begin bad --text bad.jsonl --hold-out 0 $plan
check "lines of JSON without a text are counted" both 0 says err '^2 texts for training; left out: 1 empty line, 2 invalid$'
begin strict --text bad.jsonl --hold-out 0 $plan --strict
check "--strict names the line of JSON" one_last 1 'bad.jsonl, line 3: it is no JSON object with a string "text"'
begin wrong --text own.txt --separator x --jsonl
check "--separator with --jsonl" one_sentence 2 'do not go together'
begin wrong --text texts.jsonl --text own.txt
check "JSON lines beside another file" one_sentence 2 'give --jsonl if all hold JSON lines'
begin wrong --text own.txt --valid-text texts.jsonl
check "JSON lines for validation alone" one_sentence 2 'give --jsonl if all hold JSON lines'
begin wrong --text own.txt --jsonl
check "--jsonl of a file that has no JSON" one_last 1 "own.txt: there is no line to learn from: .* of a JSON object's"
begin nowhere --text own.txt --separator NOWHERE $plan --hold-out 0
check "--separator that is nowhere: a warning" both 0 says err '^warning: "NOWHERE" is nowhere in the text, so each file is one text'
begin wrong --text own.txt --separator 'a
b'
check "--separator with a line end in it" one_sentence 2 '--separator has a line end in it'
resume own --separator x
check "--resume --separator" one_sentence 2 '--separator was chosen when the run began'
pairs=$files
small=
begin wrong $pairs --jsonl
check "--jsonl with pairs" one_sentence 2 '--jsonl is for runs on --text'
begin wrong $pairs --separator x
check "--separator with pairs" one_sentence 2 '--separator is for runs on --text'

# ---- Fine-tuning
python3 - own/config.json <<'X'
import json, sys
config = json.load(open(sys.argv[1]))
config.update(attn_pdrop=0.2, resid_pdrop=0.3, embd_pdrop=0.4)
json.dump(config, open(sys.argv[1], "w"))
X
echo '{{ messages }}' >own/chat_template.jinja
echo '{}' >own/special_tokens_map.json
mkdir own/additional_chat_templates
echo '{{ tools }}' >own/additional_chat_templates/tool_use.jinja
fine="--text own.txt --separator <|end|> --updates 2 --valid-every 2 --report-every 1 --average 0"
run train -o tuned --from own $fine
check "--from: the dropouts of its config.json" [ "$(value tuned dropout) $(value tuned attention-dropout) $(value tuned activation-dropout)" = "0.3 0.2 0.0" ]
check "--from: small steps, and gradients of a norm of at most 1" [ "$(value tuned rate) $(value tuned clip)" = "5e-5 1.0" ]
check "--from: the files of chat templates and special tokens are copied" both 0 cmp own/chat_template.jinja tuned/chat_template.jinja
check "--from: all of them" cmp own/special_tokens_map.json tuned/special_tokens_map.json
check "--from: further chat templates are copied" cmp own/additional_chat_templates/tool_use.jinja \
    tuned/additional_chat_templates/tool_use.jinja
check "--from: the result has its dropouts" grep -q '"attn_pdrop": 0.2' tuned/config.json
check "--from: no word about little text" [ "$(grep -c 'too few' err)" = 0 ]
run train -o flags --from own $fine --dropout 0 --clip 0 --rate 0.001
check "--from: options come before these defaults" [ "$(value flags dropout) $(value flags attention-dropout) $(value flags clip) $(value flags rate)" = "0.0 0.2 0.0 0.001" ]
resume flags --updates 3
check "--resume: the run has what it began with" [ "$code $(value flags dropout) $(value flags attention-dropout) $(value flags clip) $(value flags rate)" = "0 0.0 0.2 0.0 0.001" ]
run train -o refused --from own $fine --block 9999
check "--from: a run that is refused leaves no file" [ "$code" = 1 ] && [ ! -e refused ]

# ---- Too little text
begin poor $pairs --preset tiny --updates 1 --batch-tokens 128
check "too little text for a new model: the numbers, and what to do" says err \
    '^warning: 240 pairs, about [0-9]* tokens, are too few .* 1\.[0-9] million parameters .* or fine-tune one'
check "it does not end the run" says err '^update 1/1 '
check "a small model on little text: no word" [ "$(grep -c 'too few' own/train.jsonl)" = 0 ]

echo "1..$count"
