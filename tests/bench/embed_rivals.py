#!/usr/bin/env python3
"""Vectors of lines by tfm, ONNX Runtime and CTranslate2, in turns: lines a second on all cores, in fp32.

    pip install torch transformers onnx onnxscript onnxruntime ctranslate2
    python3 tests/bench/embed_rivals.py build/release/apps/tfm MODEL LINES --work FOLDER [--rounds 5] [--limit 2000]

MODEL is a directory such as all-MiniLM-L6-v2's. FOLDER keeps the rivals' conversions. Lines are sorted by length and cut
into batches of up to 4096 tokens for all three. The rivals' time is that of tokens (by `tokenizers`, in parallel), of the
model, and of the mean and its normalisation by NumPy; tfm's is what --stats says: the same, with what it reads and writes,
and without loading. All are warm. Prints each round, and the median of tfm's ratio to each rival.
"""

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
    batch, width = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("width", min=1, max=512)
    torch.onnx.export(Hidden(), (ids, ids), path, input_names=["ids", "mask"], output_names=["hidden"],
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
    """The vectors, and how long they took."""
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("lines")
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=2000)
    a = parser.parse_args()
    from tokenizers import Tokenizer

    work, cores = Path(a.work), len(os.sched_getaffinity(0))
    work.mkdir(parents=True, exist_ok=True)
    lines = Path(a.lines).read_text(encoding="utf-8").split("\n")[:-1][: a.limit]
    (work / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(Path(a.model) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    rivals = [OnnxRuntime(a.model, work, cores), CTranslate2(a.model, work, cores)]
    times = [min(embed(rivals[0], tokenizer, lines)[1] for rivals[0].session in [s] * 2) for s in rivals[0].sessions]
    rivals[0].session = rivals[0].sessions[int(np.argmin(times))]
    print("onnxruntime as exported %.2f s, fused %.2f s" % tuple(times))
    want, _ = embed(rivals[1], tokenizer, lines)
    for round_ in range(a.rounds + 1):
        got, own = embed_tfm(a.program, a.model, str(work / "lines.txt"), str(work / "vectors.npy"))
        seconds = [embed(r, tokenizer, lines)[1] for r in rivals]
        if round_ == 0:  # what it takes to get warm
            print("smallest cosine to ctranslate2: %.7f" % (got * want).sum(1).min())
            ratios = [[] for _ in rivals]
            continue
        for i, s in enumerate(seconds):
            ratios[i].append(s / own)
        print("tfm %.1f lines/s, " % (len(lines) / own) +
              ", ".join("%s %.1f" % (r.name, len(lines) / s) for r, s in zip(rivals, seconds, strict=True)), flush=True)
    for rival, r in zip(rivals, ratios, strict=True):
        print("tfm / %s: %.2f (%.2f to %.2f)" % (rival.name, statistics.median(r), min(r), max(r)))


main()
