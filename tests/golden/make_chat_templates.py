"""Writes chat_templates.json: results of transformers' apply_chat_template for ChatML templates.
Run with transformers and jinja2 installed:
    python3 tests/golden/make_chat_templates.py > tests/golden/chat_templates.json"""
import json
import sys

from transformers import PreTrainedTokenizerFast
from tokenizers import Tokenizer, models

PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
LOOP = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
        "{% endfor %}")
SMOL = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a "
        "helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
        "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}")
QWEN = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'Be {brief}.' }}
    {%- endif %}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n{\"name\": <function-name>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nBe {brief}.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- tool_call.name }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
TEMPLATES = {
    "chatml": LOOP + PROMPT,
    "escaped": (LOOP + PROMPT).replace("\n", "\\n").replace("'", '"'),
    "defined": "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" + LOOP + PROMPT,
    "smollm2": SMOL + PROMPT,
    "qwen1.5": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
               "are a helpful assistant<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content']}}"
               "{% if (loop.last and add_generation_prompt) or not loop.last %}{{ '<|im_end|>' + '\n'}}{% endif %}{% endfor %}"
               "{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "qwen2.5": QWEN,
    "bos": "{{ bos_token }}" + LOOP + PROMPT,
    "trimmed": LOOP.replace("message['content']", "message['content'] | trim") + PROMPT,
    "lines": "{% for message in messages %}\n    {# one\n message #}\n    {{- '<|im_start|>' ~ message.role ~ '\n' }}\n    "
             "{{- message.content + '<|im_end|>\n' }}\n{%- endfor %}\n{% if add_generation_prompt %}\n    {{- "
             "\"<|im_start|>assistant\\n\" }}\n{%- endif %}\n",
    "raw": "{%- for message in messages %}\n<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}\n"
           "{% if add_generation_prompt %}\n<|im_start|>assistant\n{% endif %}",
    "before": "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nHello<|im_end|>\n' }}{% endif %}" + LOOP + PROMPT,
    "unbroken": LOOP.replace(" + '\n'}}{% endfor %}", "}}{% endfor %}") + PROMPT,
}
CHATS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " What is\n2 + 2? \n"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "\u3000b\u00e9 "}, {"role": "user", "content": "c"}],
    [{"role": "user", "content": ""}, {"role": "system", "content": "{{ x }}"}, {"role": "user", "content": "\U0001f600"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
]

tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<|endoftext|>": 0})), bos_token="<|endoftext|>")
rendered = {}
for name, template in TEMPLATES.items():
    rendered[name] = [tokenizer.apply_chat_template(chat, chat_template=template, tokenize=False, add_generation_prompt=True)
                      for chat in CHATS]
json.dump({"templates": TEMPLATES, "chats": CHATS, "rendered": rendered}, sys.stdout, indent=1)
print()
