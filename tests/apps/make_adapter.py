"""Writes a LoRA adapter of PEFT with random numbers for the matrices of a safetensors model, and a copy of the model
whose F32 weights have it.

    python3 make_adapter.py MODEL PATTERN ADAPTER [CHANGED]
"""

import json
import random
import re
import shutil
import struct
import sys
from array import array
from pathlib import Path

RANK, ALPHA = 2, 6


def read(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return header, data[8 + size:]


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def main(model, pattern, adapter, changed=None):
    dice = random.Random(5)
    header, data = read(Path(model, "model.safetensors"))
    conv = json.loads(Path(model, "config.json").read_text())["model_type"] == "gpt2"
    lora, copy = {}, {}
    for name, t in header.items():
        raw = data[slice(*t["data_offsets"])]
        copy[name] = (t["dtype"], t["shape"], raw)
        if len(t["shape"]) != 2 or not re.search(pattern, name):
            continue
        outputs, inputs = reversed(t["shape"]) if conv else t["shape"]
        a = [array("f", (dice.uniform(-0.3, 0.3) for _ in range(inputs))) for _ in range(RANK)]
        b = [array("f", (dice.uniform(-0.3, 0.3) for _ in range(RANK))) for _ in range(outputs)]
        stem = "base_model.model." + name.removesuffix(".weight")
        lora[stem + ".lora_A.weight"] = "F32", [RANK, inputs], b"".join(row.tobytes() for row in a)
        lora[stem + ".lora_B.weight"] = "F32", [outputs, RANK], b"".join(row.tobytes() for row in b)
        if not changed:
            continue
        values = array("f", raw)
        for i, row in enumerate(b):
            for k in range(inputs):
                at = k * outputs + i if conv else i * inputs + k
                values[at] += ALPHA / RANK * sum(row[r] * a[r][k] for r in range(RANK))
        copy[name] = "F32", t["shape"], values.tobytes()
    Path(adapter).mkdir()
    write(Path(adapter, "adapter_model.safetensors"), lora)
    Path(adapter, "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "base_model_name_or_path": model}))
    if changed:
        shutil.copytree(model, changed)
        write(Path(changed, "model.safetensors"), copy)


main(*sys.argv[1:])
