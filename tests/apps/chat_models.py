"""Creates small chat models with byte tokens:
    python3 tests/apps/chat_models.py FOLDER
FOLDER/random has random parameters (tests/serve/make_bytes.py), so another prompt has another answer; FOLDER/says always
answers TEXT, and FOLDER/endless repeats the end of TEXT without an end."""
import array
import json
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/../serve")
import make_bytes  # noqa: E402

TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
            "{% if mood is defined %}{{ mood }}{% endif %}")
# Each byte once: it decides the next one. Three characters of several bytes, and an escape sequence.
TEXT = "Hi é€😀\x1b[0m!"
CHARACTERS = list(make_bytes.byte_characters())
END = 256 + make_bytes.SPECIAL.index("<|im_end|>")


def write_configuration(folder, **config):
    with open(folder + "/tokenizer_config.json", "w", encoding="utf-8") as out:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}, out)
    if config:
        with open(folder + "/config.json", "w", encoding="utf-8") as out:
            json.dump(config, out)


def write_bigrams(folder, following):
    """A GPT-2 whose next token depends on the last one only: one-hot embeddings, and an MLP that maps each to its successor."""
    size = 256 + len(make_bytes.SPECIAL)
    zeros = {"ln_1.weight": (size,), "ln_1.bias": (size,), "attn.c_attn.weight": (size, 3 * size), "attn.c_attn.bias": (3 * size,),
             "attn.c_proj.weight": (size, size), "attn.c_proj.bias": (size,), "ln_2.bias": (size,), "mlp.c_proj.bias": (size,)}
    tensors = {"h.0." + name: (shape, []) for name, shape in zeros.items()}
    ones = [(i, 1.0) for i in range(size)]
    tensors |= {"wpe.weight": ((make_bytes.POSITIONS, size), []), "ln_f.bias": ((size,), []), "ln_f.weight": ((size,), ones),
                "h.0.ln_2.weight": ((size,), ones), "wte.weight": ((size, size), [(i * size + i, 1.0) for i in range(size)]),
                "h.0.mlp.c_fc.weight": ((size, 4 * size), [(i * 4 * size + i, 1.0) for i in range(size)]),
                "h.0.mlp.c_fc.bias": ((4 * size,), [(i, -2.0) for i in range(4 * size)]),
                "h.0.mlp.c_proj.weight": ((4 * size, size), [(i * size + following.get(i, END), 1.0) for i in range(size)])}
    header, data = {}, array.array("f")
    for name, (shape, entries) in tensors.items():
        start = len(data)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data.frombytes(bytes(4 * count))
        for i, value in entries:
            data[start + i] = value
        header["transformer." + name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [4 * start, 4 * len(data)]}
    text = json.dumps(header).encode()
    if sys.byteorder == "big":
        data.byteswap()
    with open(folder + "/model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data.tobytes())
    make_bytes.write_tokenizer(folder)
    write_configuration(folder, model_type="gpt2", architectures=["GPT2LMHeadModel"], n_embd=size, n_layer=1, n_head=7,
                        n_positions=make_bytes.POSITIONS, vocab_size=size, bos_token_id=256, eos_token_id=256)


def main():
    top = sys.argv[1]
    for name in ("random", "says", "endless"):
        os.makedirs(top + "/" + name)
    subprocess.run([sys.executable, HERE + "/../serve/make_bytes.py", top + "/random"], check=True)
    write_configuration(top + "/random")
    ids = [CHARACTERS.index(byte) for byte in b"\n" + TEXT.encode()]
    assert len(set(ids)) == len(ids)
    chain = dict(zip(ids, ids[1:]))
    write_bigrams(top + "/says", chain)
    write_bigrams(top + "/endless", chain | {ids[-1]: ids[1]})


if __name__ == "__main__":
    main()
