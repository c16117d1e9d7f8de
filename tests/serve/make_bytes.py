"""Creates a directory with a small random GPT-2 with byte tokens and ChatML tokens, so that any two prompts differ in
their ids.
    python3 tests/serve/make_bytes.py DIR"""
import array
import json
import os
import random
import struct
import sys

WIDTH, POSITIONS = 16, 2048
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_characters():
    """The characters for bytes in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def write_tokenizer(folder):
    vocabulary = {character: i for i, character in enumerate(byte_characters().values())}
    added = [{"id": 256 + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, token in enumerate(SPECIAL)]
    steps = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    with open(folder + "/tokenizer.json", "w", encoding="utf-8") as out:
        json.dump({"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": steps, "post_processor": None,
                   "decoder": steps, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, out)


def write_weights(folder):
    numbers = random.Random(7)
    vocabulary = 256 + len(SPECIAL)
    shapes = {"wte.weight": (vocabulary, WIDTH), "wpe.weight": (POSITIONS, WIDTH), "ln_f.weight": (WIDTH,),
              "ln_f.bias": (WIDTH,)}
    for name, shape in (("ln_1.weight", (WIDTH,)), ("ln_1.bias", (WIDTH,)), ("attn.c_attn.weight", (WIDTH, 3 * WIDTH)),
                        ("attn.c_attn.bias", (3 * WIDTH,)), ("attn.c_proj.weight", (WIDTH, WIDTH)),
                        ("attn.c_proj.bias", (WIDTH,)), ("ln_2.weight", (WIDTH,)), ("ln_2.bias", (WIDTH,)),
                        ("mlp.c_fc.weight", (WIDTH, 4 * WIDTH)), ("mlp.c_fc.bias", (4 * WIDTH,)),
                        ("mlp.c_proj.weight", (4 * WIDTH, WIDTH)), ("mlp.c_proj.bias", (WIDTH,))):
        shapes["h.0." + name] = shape
    header, data = {}, array.array("f")
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        middle = 1.0 if name.endswith("weight") and "ln_" in name else 0.0
        start = 4 * len(data)
        data.extend(middle + numbers.uniform(-1, 1) * (0.1 if len(shape) == 1 else 0.8) for _ in range(count))
        header["transformer." + name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, 4 * len(data)]}
    text = json.dumps(header).encode()
    if sys.byteorder == "big":
        data.byteswap()
    with open(folder + "/model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data.tobytes())
    with open(folder + "/config.json", "w", encoding="utf-8") as out:
        json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": WIDTH, "n_layer": 1, "n_head": 2,
                   "n_positions": POSITIONS, "vocab_size": vocabulary, "bos_token_id": 256, "eos_token_id": 256}, out)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    write_tokenizer(sys.argv[1])
    write_weights(sys.argv[1])
