"""Writes a model in the format of its case, and opens such a folder."""

import json

import torch
import transformers
from safetensors.torch import load_file, save_file

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "mixed": torch.float16}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def stored_tensors(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
        file.unlink()
    return tensors


def write_bin(folder, tensors, shards):
    """As torch.save writes a PyTorch state_dict, in one file or in two and an index."""
    names = list(tensors)
    if not shards:
        torch.save(tensors, folder / "pytorch_model.bin")
        return
    parts = {f"pytorch_model-{i + 1:05}-of-00002.bin": names[i::2] for i in range(2)}
    for file, part in parts.items():
        torch.save({n: tensors[n] for n in part}, folder / file)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    where = {n: file for file, part in parts.items() for n in part}
    write_json(folder / "pytorch_model.bin.index.json", {"metadata": {"total_size": size}, "weight_map": where})


def store_weights(folder, model, case):
    """Converts model.safetensors to the format of the case."""
    files = case.get("files", "one")
    if not case.get("extra") and "bin" not in files:
        return
    tensors = stored_tensors(folder)
    if case.get("extra"):
        tensors = case["extra"](tensors, model.config)
    if "bin" in files:
        write_bin(folder, tensors, files == "bin-shards")
    else:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def store_case(folder, model, case):
    dtype = DTYPES[case["dtype"]]
    saved = type(model)(model.config)
    saved.load_state_dict(model.state_dict())
    saved = saved.to(dtype)
    if case["dtype"] == "mixed":
        for name, p in saved.named_parameters():
            if p.dim() == 1:
                p.data = model.get_parameter(name).data.clone()
    saved = saved.base_model if case.get("base") else saved
    total = sum(p.numel() * p.element_size() for p in saved.parameters())
    shards = case.get("files") == "shards"
    saved.save_pretrained(folder, max_shard_size=total // 3 + 1 if shards else "5GB")
    store_weights(folder, model, case)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if case.get("style"):
        config = case["style"](config)
    write_json(folder / "config.json", config)
    rules = folder / "generation_config.json"
    if case.get("generation", {}) is None:
        rules.unlink(missing_ok=True)
    elif case.get("generation"):
        keys = json.loads(rules.read_text(encoding="utf-8")) if rules.exists() else {}
        write_json(rules, keys | case["generation"])


def publish(folder, case, config):
    """Changes a stored case to the form of files with their own code, which transformers does not read."""
    style, rename = case["published"]
    if rename:
        file = folder / "model.safetensors"
        save_file(rename(load_file(file), config), file, {"format": "pt"})
    path = folder / "config.json"
    write_json(path, style(json.loads(path.read_text(encoding="utf-8"))))


def open_case(folder, case):
    """In fp32, with the class of the case. All stored tensors must be used, except the ones that the case adds."""
    model, found = getattr(transformers, case["cls"]).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    missing = set(found["missing_keys"]) - ({"final_logits_bias"} if case.get("base") else set())
    if missing or found["mismatched_keys"] or (found["unexpected_keys"] and not case.get("extra")):
        raise SystemExit(f"{folder}: {found}")
    return model.eval()
