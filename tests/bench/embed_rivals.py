#!/usr/bin/env python3
"""Sentence embeddings with tfm, ONNX Runtime and CTranslate2, in turns: lines per second on all cores, fp32.

    pip install torch transformers onnx onnxscript onnxruntime ctranslate2
    python3 tests/bench/embed_rivals.py build/release/apps/tfm MODEL LINES --work FOLDER [--rounds 5] [--limit 2000]
                                        [--rivals onnxruntime,ctranslate2] [--keep FILE]

MODEL is a directory such as all-MiniLM-L6-v2's. FOLDER caches the peers' conversions. Lines are sorted by length and
split into batches of up to 4096 tokens for all three. A peer's time includes tokenization (`tokenizers`, parallel), the
model, mean pooling and normalization in NumPy; tfm's time (--stats) includes the same, without loading. All are warmed
up. Prints each round, with the share of the cores used by other programs, and the median of tfm's ratio to each peer.
If a machine is only free for short times, run it repeatedly with few rounds and --keep FILE: medians are over all
rounds in FILE in which others used less than a tenth."""

import argparse
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np

BATCH = 4096


def export(source, path):
    import torch
    from transformers import AutoModel

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(source, attn_implementation="eager").eval()

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.ones(2, 9, dtype=torch.int64)
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 5:] = 0  # without masked tokens the exporter omits the mask
    batch, width = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("width", min=1, max=512)
    torch.onnx.export(Hidden(), (ids, mask), path, input_names=["ids", "mask"], output_names=["hidden"],
                      dynamic_shapes={"ids": {0: batch, 1: width}, "mask": {0: batch, 1: width}}, dynamo=True)


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, source, work, cores):
        import onnxruntime

        path, config = work / "model.onnx", json.loads((Path(source) / "config.json").read_text())
        if not path.exists():
            export(source, str(path))
        fused = work / "fused.onnx"
        if not fused.exists():
            from onnxruntime.transformers.optimizer import optimize_model

            made = optimize_model(str(path), model_type="bert", num_heads=config["num_attention_heads"],
                                  hidden_size=config["hidden_size"])
            print("onnxruntime fused", made.get_fused_operator_statistics())
            made.save_model_to_file(str(fused))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = cores
        self.sessions = [onnxruntime.InferenceSession(str(p), options, providers=["CPUExecutionProvider"])
                         for p in (path, fused)]
        self.session = self.sessions[0]

    def choose(self, run):
        """The faster of the exported and the fused model, if the latter computes the same."""
        made = []
        for self.session in self.sessions * 2:
            made.append(run())
        same = np.abs(made[2][0] - made[3][0]).max() < 1e-3
        print("onnxruntime: the fused model gives %s vectors" % ("the same" if same else "other"))
        self.session = self.sessions[int(same and made[3][1] < made[2][1])]

    def hidden(self, ids, mask):
        return self.session.run(None, {"ids": ids, "mask": mask})[0]


class CTranslate2:
    name = "ctranslate2"

    def __init__(self, source, work, cores):
        import ctranslate2

        path = work / "ctranslate2"
        if not path.exists():
            ctranslate2.converters.TransformersConverter(str(source)).convert(str(path))
        self.model = ctranslate2.Encoder(str(path), device="cpu", inter_threads=1, intra_threads=cores,
                                         compute_type="float32")

    def hidden(self, ids, mask):
        rows = [row[:n].tolist() for row, n in zip(ids, mask.sum(1), strict=True)]
        return np.array(self.model.forward_batch(rows).last_hidden_state)


def embed(rival, tokenizer, lines):
    """The vectors, and the seconds."""
    start = time.perf_counter()
    encoded = [e.ids for e in tokenizer.encode_batch(lines)]
    order = sorted(range(len(lines)), key=lambda i: -len(encoded[i]))
    vectors, first = [None] * len(lines), 0
    while first < len(order):
        width = len(encoded[order[first]])
        rows = order[first : first + max(1, BATCH // width)]
        ids, mask = np.zeros((2, len(rows), width), dtype=np.int64)
        for k, i in enumerate(rows):
            ids[k, : len(encoded[i])] = encoded[i]
            mask[k, : len(encoded[i])] = 1
        hidden, seen = rival.hidden(ids, mask), mask[..., None].astype(np.float32)
        pooled = (hidden * seen).sum(1) / seen.sum(1)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        for k, i in enumerate(rows):
            vectors[i] = pooled[k]
        first += len(rows)
    return np.stack(vectors), time.perf_counter() - start


def embed_tfm(program, model, path, out):
    done = subprocess.run([program, "embed", "-m", model, "-i", path, "--format", "npy", "-o", out, "--stats"],
                          stderr=subprocess.PIPE, check=True, text=True)
    return np.load(out), json.loads(done.stderr.strip().splitlines()[-1].removeprefix("stats "))["seconds"]


def busy():
    """Busy seconds of all cores, and the part of this program and its children."""
    fields = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    own = os.times()
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"), sum(own[:4])


def in_turn(runs, cores):
    """The seconds of each, and the share of the cores that others used."""
    seconds, others = [], []
    for run in runs:
        time.sleep(0.3)  # lets spinning threads go to sleep
        start, before = time.perf_counter(), busy()
        seconds.append(run())
        after, passed = busy(), time.perf_counter() - start
        others.append(max(0, (after[0] - before[0]) - (after[1] - before[1])) / passed / cores)
    return seconds, max(others)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("lines")
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--rivals", default="onnxruntime,ctranslate2")
    parser.add_argument("--keep")
    a = parser.parse_args()
    from tokenizers import Tokenizer

    work, cores = Path(a.work), len(os.sched_getaffinity(0))
    work.mkdir(parents=True, exist_ok=True)
    lines = Path(a.lines).read_text(encoding="utf-8").split("\n")[:-1][: a.limit]
    for name, some in (("lines.txt", lines), ("few.txt", lines[:200])):
        (work / name).write_text("".join(line + "\n" for line in some), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(Path(a.model) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    rivals = [kind(a.model, work, cores) for kind in (OnnxRuntime, CTranslate2) if kind.name in a.rivals.split(",")]
    for rival in rivals:
        if isinstance(rival, OnnxRuntime):
            rival.choose(lambda r=rival: embed(r, tokenizer, lines[:200]))
        few, _ = embed(rival, tokenizer, lines[:200])  # warm-up
        got, _ = embed_tfm(a.program, a.model, str(work / "few.txt"), str(work / "vectors.npy"))
        print("smallest cosine to %s: %.7f" % (rival.name, (got * few).sum(1).min()))
    kept = [json.loads(line) for line in Path(a.keep).read_text().split("\n")[:-1]] if a.keep and Path(a.keep).exists() else []
    for _ in range(a.rounds):
        runs = [lambda: embed_tfm(a.program, a.model, str(work / "lines.txt"), str(work / "vectors.npy"))[1]]
        runs += [lambda r=r: embed(r, tokenizer, lines)[1] for r in rivals]
        seconds, others = in_turn(runs, cores)
        rates = {name: len(lines) / s for name, s in zip(["tfm", *(r.name for r in rivals)], seconds, strict=True)}
        kept.append({"rates": rates, "others": others})
        if a.keep:
            with open(a.keep, "a", encoding="utf-8") as file:
                print(json.dumps(kept[-1]), file=file)
        print("lines/s: " + ", ".join("%s %.1f" % pair for pair in rates.items()) + "; others %.0f%%" % (100 * others),
              flush=True)
    for name in a.rivals.split(","):
        r = [k["rates"]["tfm"] / k["rates"][name] for k in kept if name in k["rates"] and k["others"] < 0.1]
        if r:
            print("tfm / %s: %.2f (%.2f to %.2f, %d rounds)" % (name, statistics.median(r), min(r), max(r), len(r)))


main()
