"""Compares tfm's rerankers and embeddings with sentence-transformers on random models of larger sizes.

    PYTHONPATH=FOLDER python compare_rerankers.py     FOLDER has the package tfm, as apps/python/tests/run.sh makes it

Prints for each model the largest difference of scores, and the number of queries whose documents are in another order,
except pairs of documents whose scores are within 1e-5; for the embedding model, the largest difference of vectors.
Fails for another order, and for vectors that differ by more than 1e-5. Scores have no bound: those of the random ELECTRA
differ by 2.4e-5, as much as torch's in fp32 and fp64."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import tfm
import torch
import transformers
from make_embedder import HERE, TEXTS, fill, save
from make_reranker import DOCUMENTS, QUERIES, texts
from sentence_transformers import CrossEncoder, SentenceTransformer

SIZES = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
         "max_position_embeddings": 70, "num_labels": 1, "pad_token_id": 0, "vocab_size": 89}
NAMES = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
         "hidden_dim": "intermediate_size"}
MANY = DOCUMENTS + texts(24, 40, 3)


def shape(name):
    sizes = dict(SIZES)
    if name == "DistilBert":
        sizes.update({new: sizes.pop(old) for new, old in NAMES.items()})
    if name == "ModernBert":
        sizes.update(cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3)
    return getattr(transformers, name + "Config")(**sizes)


def order_differs(got, want):
    order = np.argsort(-got, kind="stable")
    return any(want[b] - want[a] > 1e-5 for i, a in enumerate(order) for b in order[i + 1:])


def compare(name, seed):
    with tempfile.TemporaryDirectory() as folder:
        made = fill(getattr(transformers, name + "ForSequenceClassification")(shape(name)), seed)
        save(Path(folder), made)
        theirs, worst, others = CrossEncoder(folder), 0.0, 0
        with tfm.Reranker(folder) as model:
            for query in QUERIES:
                want = theirs.predict([(query, each) for each in MANY])
                got = model.score(query, MANY)
                worst = max(worst, float(np.abs(got - want).max()))
                others += order_differs(got, want)
    print(f"{name}: scores within {worst:.1e}, {others} of {len(QUERIES)} queries in another order")
    return others > 0


def compare_vectors():
    folder = HERE / "embedder"
    with tfm.Embedder(folder) as model:
        worst = float(np.abs(model.encode(TEXTS + QUERIES) - SentenceTransformer(str(folder)).encode(TEXTS + QUERIES)).max())
    print(f"embedder: vectors within {worst:.1e}")
    return worst > 1e-5


def main():
    torch.set_num_threads(1)
    failed = [compare(name, 31 + i) for i, name in enumerate(["Bert", "DistilBert", "Electra", "ModernBert"])]
    return any([*failed, compare_vectors()])


if __name__ == "__main__":
    sys.exit(main())
