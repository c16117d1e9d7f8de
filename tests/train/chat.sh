# tfm train --chat: fine-tuning a language model on conversations.
. "$(dirname "$0")/common.sh"

small="--width 32 --heads 2 --ffn-dim 64 --decoder-layers 1"
plan="--logging-steps 1 --hold-out 0 --average 2"
cut -f2 text.tsv | sed 's/.*/user & assistant &/' >words
# shellcheck disable=SC2086 # words, here and below
begin base --text words --family llama --max-positions 64 --batch-tokens 128 --seq-len 32 --vocab-size 90 --max-steps 2 $plan
cat >base/chat_template.jinja <<'EOF'
{% for m in messages %}{{ m.role }} {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant {% endif %}
EOF
awk -F'\t' '{ printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", $2, $2 }' \
    text.tsv >all.jsonl
head -n 60 all.jsonl >chat.jsonl
{
    tail -n 9 all.jsonl
    echo '{}'
} >bad.jsonl
awk -F'\t' 'NR <= 60 { printf "{\"conversations\": [{\"from\": \"human\", \"value\": \"%s\"}, {\"from\": \"gpt\", \"value\": \"%s\"}]}\n", $2, $2 }' \
    text.tsv >sharegpt.jsonl

run train -o tuned --init-from base --chat chat.jsonl --valid-chat bad.jsonl --batch-tokens 256 $plan
check "train --chat trains for three epochs by default" both 0 says err '^60 conversations for training'
steps=$(value tuned max-steps)
check "train --chat computes the updates of three epochs" both 0 says err "^update $steps/$steps  epoch 3"
check "train --chat has the defaults of fine-tuning" [ "$(value tuned learning-rate) $(value tuned lr-scheduler-type) $(value tuned beta2) $(value tuned warmup-steps)" = '5e-5 "linear" 0.999 0' ]
check "train --chat validates by the perplexity of answers" says err "valid  ppl "
check "train --chat skips bad conversations of validation" says err '^validation: 1 bad conversations are skipped: it is not a JSON object with'
check "train --chat copies the chat template" cmp base/chat_template.jinja tuned/chat_template.jinja
train_plan="--batch-tokens 256 --lr-scheduler-type constant $plan"
run train -o whole --init-from base --chat chat.jsonl --max-steps 4 $train_plan
run train -o shared --init-from base --chat sharegpt.jsonl --max-steps 4 $train_plan
check "train --chat reads ShareGPT conversations" both 0 cmp whole/snapshots/00000004.safetensors \
    shared/snapshots/00000004.safetensors
run train -o part --init-from base --chat chat.jsonl --max-steps 2 $train_plan
resume part --max-steps 4
check "train --chat resumed gives the same parameters" both 0 cmp whole/snapshots/00000004.safetensors \
    part/snapshots/00000004.safetensors

{
    cat chat.jsonl
    echo '{"messages": []}'
    echo
    printf '{"prompt": "one", "completion": "%s"}\n' "$(yes ' two' | head -n 60 | tr -d '\n')"
} >odd.jsonl
run train -o odd --init-from base --chat odd.jsonl --batch-tokens 256 --max-steps 1 --seq-len 40 $plan
check "train --chat counts what it skips" both 0 says err '^60 conversations for training; left out: 1 too long, 1 invalid'
run train -o strict --init-from base --chat odd.jsonl --max-steps 1 --strict $plan
check "train --chat --strict names a bad line" both 1 says err 'odd.jsonl, line 61: chat_render: messages is an empty list.*fix the conversation'
run train -o other --init-from base --chat chat.jsonl --text words
check "train --chat and --text are a usage error" one_sentence 2 '--text is for plain text, and --chat for conversations'
run train -o other --init-from base --chat chat.jsonl --src words
check "train --chat and --src are a usage error" one_sentence 2 '--src is for pairs of lines, and --chat is for conversations'
run train -o other --chat chat.jsonl
check "train --chat without a model is a usage error" one_sentence 2 '--chat needs a model with a chat template'
run train -o other --text words --valid-chat chat.jsonl
check "train --valid-chat without --chat is a usage error" one_sentence 2 '--valid-chat is for runs on --chat'
rm base/chat_template.jinja
run train -o other --init-from base --chat chat.jsonl $plan
check "train --chat refuses a model without a chat template" one_sentence 1 'the model has no chat template'

echo "1..$count"
