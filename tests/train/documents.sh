# tfm train --text on documents of several lines; and --init-from with the model's own dropout, files and small steps.
. "$(dirname "$0")/common.sh"

small="--width 32 --heads 4 --ffn-dim 64 --decoder-layers 1 --batch-tokens 128 --seq-len 16"
plan="--max-steps 6 --eval-steps 3 --logging-steps 2 --warmup-steps 2 --learning-rate 0.01 --average 2"

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
check "train --separator on separate lines counts documents" both 0 says err '^76 texts for training$'
check "train --separator holds documents out for validation" says err ' 4 texts for validation$'
check "train --separator prints no warning where the separator occurs" [ "$(grep -c 'does not occur' err)" = 0 ]
check "train --separator leaves the separator out of the vocabulary" [ "$(grep -c '<|\|end|' own/tokenizer.json)" = 0 ]
begin within --text within.txt --separator '<|end|>' $plan
check "train --separator within lines, CR LF and a byte order mark give the same parameters" both 0 alike own within
begin blank --text blank.txt --separator '\n\n' $plan
check "train --separator with newlines splits at blank lines into the same parameters" both 0 alike own blank
begin json --text texts.jsonl $plan
check "train on a .jsonl file gives the same parameters" both 0 alike own json
check "train on a .jsonl file has jsonl in its recipe" [ "$(value json jsonl)" = true ]
cp texts.jsonl texts.txt
begin named --text texts.txt --jsonl $plan
check "train --jsonl accepts any file name" both 0 alike own named
begin cut --text own.txt --separator '<|end|>' $plan --max-steps 4
resume cut --max-steps 6
check "train --resume within documents gives the same parameters" both 0 cmp own/snapshots/00000006.safetensors \
    cut/snapshots/00000006.safetensors
begin valid --text texts.jsonl --valid-text texts.jsonl $plan
check "train --valid-text has the document format of --text" both 0 says err ' 80 texts for validation$'

# ---- Invalid separators and documents
{ head -n 2 texts.jsonl && echo '{"txt": "a"}' && echo && echo '["text"]'; } >bad.jsonl
begin bad --text bad.jsonl --hold-out 0 $plan
check "train --jsonl counts lines without a text" both 0 says err '^2 texts for training; left out: 1 empty line, 2 invalid$'
begin strict --text bad.jsonl --hold-out 0 $plan --strict
check "train --jsonl --strict names the line without a text" one_last 1 'bad.jsonl, line 3: it is not a JSON object with a string "text"'
begin wrong --text own.txt --separator x --jsonl
check "train --separator with --jsonl is a usage error" one_sentence 2 'do not go together'
begin wrong --text texts.jsonl --text own.txt
check "train on JSON lines next to a plain file is an error" one_sentence 2 'give --jsonl if all contain JSON lines'
begin wrong --text own.txt --valid-text texts.jsonl
check "train with JSON lines for validation only is an error" one_sentence 2 'give --jsonl if all contain JSON lines'
begin wrong --text own.txt --jsonl
check "train --jsonl names a file without JSON" one_last 1 "own.txt: there is no usable line: .* of a JSON object's"
begin nowhere --text own.txt --separator NOWHERE $plan --hold-out 0
check "train --separator warns where the separator does not occur" both 0 says err '^warning: "NOWHERE" does not occur in the text, so each file is one text'
begin wrong --text own.txt --separator 'a
b'
check "train --separator with an actual newline is a usage error" one_sentence 2 '--separator contains a line end'
resume own --separator x
check "train --resume --separator is a usage error" one_sentence 2 '--separator cannot change in a resumed run'
pairs=$files
small=
begin wrong $pairs --jsonl
check "train --jsonl with pairs is a usage error" one_sentence 2 '--jsonl is for runs on --text'
begin wrong $pairs --separator x
check "train --separator with pairs is a usage error" one_sentence 2 '--separator is for runs on --text'

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
fine="--text own.txt --separator <|end|> --max-steps 2 --eval-steps 2 --logging-steps 1 --average 0"
run train -o tuned --init-from own $fine
check "train --init-from takes the dropouts of config.json" [ "$(value tuned dropout) $(value tuned attention-dropout) $(value tuned activation-dropout)" = "0.3 0.2 0.0" ]
check "train --init-from has a small learning rate and clips gradients at norm 1" [ "$(value tuned learning-rate) $(value tuned max-grad-norm)" = "5e-5 1.0" ]
check "train --init-from copies chat template and special token files" both 0 cmp own/chat_template.jinja tuned/chat_template.jinja
check "train --init-from copies all tokenizer files" cmp own/special_tokens_map.json tuned/special_tokens_map.json
check "train --init-from copies further chat templates" cmp own/additional_chat_templates/tool_use.jinja \
    tuned/additional_chat_templates/tool_use.jinja
check "train --init-from writes the dropouts into the new model" grep -q '"attn_pdrop": 0.2' tuned/config.json
check "train --init-from prints no hint about little text" [ "$(grep -c 'too few' err)" = 0 ]
run train -o flags --init-from own $fine --dropout 0 --max-grad-norm 0 --learning-rate 0.001
check "train --init-from prefers options over its defaults" [ "$(value flags dropout) $(value flags attention-dropout) $(value flags max-grad-norm) $(value flags learning-rate)" = "0.0 0.2 0.0 0.001" ]
resume flags --max-steps 3
check "train --resume keeps the defaults of --init-from" [ "$code $(value flags dropout) $(value flags attention-dropout) $(value flags max-grad-norm) $(value flags learning-rate)" = "0 0.0 0.2 0.0 0.001" ]
run train -o refused --init-from own $fine --seq-len 9999
check "train --init-from that is rejected leaves no file" [ "$code" = 1 ] && [ ! -e refused ]

# ---- Too little text
begin poor $pairs --preset tiny --max-steps 1 --batch-tokens 128
check "train of a new model warns of too little text and says what to do" says err \
    '^warning: 240 pairs, about [0-9]* tokens, are too few .* 1\.[0-9] million parameters .* or fine-tune a trained model'
check "train continues after the warning of too little text" says err '^update 1/1 '
begin poor $pairs --preset tiny --encoder-layers 1 --decoder-layers 1 --max-steps 1 --batch-tokens 128
check "train of a model below a million parameters warns of too little text" says err \
    '^warning: 240 pairs, about [0-9]* tokens, are too few .* 0\.[0-9] million parameters'
check "train of a toy model prints no hint about little text" [ "$(grep -c 'too few' own/train.jsonl)" = 0 ]

echo "1..$count"
