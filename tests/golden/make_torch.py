"""Creates the small torch.save files in tests/golden/torch, for tests/model/weights/test_torch_file.c.

    pip install torch==2.13.0 safetensors
    python make_torch.py

Every tensor holds 0, 1, 2, ... in C order, so that the test needs no second file. `legacy` is PyTorch's layout before
1.6, used by the files of most OPUS-MT pages."""

import collections
import json
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent
OUT = HERE / "torch"


def numbers(*dims, dtype=torch.float32):
    count = 1
    for dim in dims:
        count *= dim
    return torch.arange(count, dtype=torch.float32).reshape(dims).to(dtype)


def state(parts):
    """As from state_dict(): an OrderedDict with an attribute that a reader must accept."""
    dict_ = collections.OrderedDict(parts)
    dict_._metadata = collections.OrderedDict([("", {"version": 1})])
    return dict_


def tensors():
    shared = numbers(3, 4)
    long = torch.cat([torch.full((5,), -1.0), numbers(6), torch.full((2,), -1.0)])
    return state(
        [
            ("f32", numbers(2, 3)),
            ("f16", numbers(5, dtype=torch.float16)),
            ("bf16", numbers(2, 2, dtype=torch.bfloat16)),
            ("scalar", torch.tensor(0.0)),
            ("none", torch.empty(0, 7)),
            ("tied.first", shared),
            ("tied.second", shared),
            ("part", long[5:11].reshape(2, 3)),
            ("turned", numbers(4, 3).t().contiguous().t()),
            ("steps", torch.stack([numbers(4), -numbers(4)], 1)[:, 0]),
            ("parameter", torch.nn.Parameter(numbers(3))),
            ("i64", numbers(3, dtype=torch.int64)),
            ("bool", torch.tensor([False, True])),
            ("deep", numbers(1, 1, 1, 1, 1, 2)),
        ]
    )


def save(name, value, legacy=False, **options):
    torch.save(value, OUT / name, _use_new_zipfile_serialization=not legacy, **options)


def rezip(name, source, compression, more=()):
    """The entries of another archive, as written by an archiver, and some more."""
    with zipfile.ZipFile(OUT / source) as old, zipfile.ZipFile(OUT / name, "w", compression) as new:
        for entry in old.namelist():
            new.writestr(zipfile.ZipInfo(entry), old.read(entry), compression)
        for entry in more:
            new.writestr(zipfile.ZipInfo(entry), b"")


def main():
    OUT.mkdir(exist_ok=True)
    save("zip.bin", tensors())
    save("legacy.bin", tensors(), legacy=True)
    save("protocol-4.bin", tensors(), pickle_protocol=4)
    save("legacy-protocol-4.bin", tensors(), legacy=True, pickle_protocol=4)
    save("training.bin", {"epoch": 3, "state_dict": state([("x", numbers(2))])})
    save("list.bin", [numbers(2)])
    save("repeated.bin", state([("x", torch.zeros(1).expand(1000, 1000))]))
    save("module.bin", torch.nn.Linear(2, 2))
    small = state([("x", numbers(2))])
    save("small.bin", small)
    rezip("stored.bin", "small.bin", zipfile.ZIP_STORED)
    rezip("deflated.bin", "small.bin", zipfile.ZIP_DEFLATED)
    rezip("script.bin", "small.bin", zipfile.ZIP_STORED, ["small/constants.pkl"])
    rezip("two.bin", "small.bin", zipfile.ZIP_STORED, ["other/data.pkl"])
    # A sharded model, one shard of each layout.
    weights = load_file(HERE / "prenorm-embedding-norm" / "model.safetensors")
    names = sorted(weights)
    shards = {
        "pytorch_model-00001-of-00002.bin": names[: len(names) // 2],
        "pytorch_model-00002-of-00002.bin": names[len(names) // 2 :],
    }
    for i, (name, part) in enumerate(shards.items()):
        save(name, state([(key, weights[key].clone()) for key in part]), legacy=i == 1)
    index = {
        "metadata": {"total_size": sum(w.numel() * w.element_size() for w in weights.values())},
        "weight_map": {key: name for name, part in shards.items() for key in part},
    }
    (OUT / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
