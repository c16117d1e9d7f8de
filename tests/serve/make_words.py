"""Adds a tokenizer with word tokens, and a ChatML chat template, to a directory of tests/make_decoder.
    python3 tests/serve/make_words.py DIR"""
import json
import sys

words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {"w%d" % i: i for i in range(3, 50)}
template = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
            "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
with open(sys.argv[1] + "/tokenizer.json", "w", encoding="utf-8") as out:
    json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
               "post_processor": None, "decoder": None,
               "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}}, out)
with open(sys.argv[1] + "/tokenizer_config.json", "w", encoding="utf-8") as out:
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}, out)
