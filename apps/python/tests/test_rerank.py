"""Reranking has the scores of sentence-transformers' CrossEncoder, and of the program."""
from __future__ import annotations

import json

import numpy as np
import pytest
import tfm
from conftest import GOLDEN, Program


@pytest.mark.parametrize("name", ["reranker", "reranker_roberta", "reranker_qwen3"])
def test_scores_equal_the_cross_encoders(context: tfm.Context, name: str) -> None:
    golden = json.loads((GOLDEN / name / "golden.json").read_text())
    documents = golden["documents"]
    with tfm.Reranker(GOLDEN / name, device=context) as model:
        for query, want in zip(golden["queries"][:20], golden["scores"]):
            assert np.allclose(model.score(query, documents), want, atol=1e-5)
        want = np.array(golden["scores"][0])
        ranked = model.rank(golden["queries"][0], documents)
        assert [each.document for each in ranked] == list(np.argsort(-want, kind="stable"))
        assert model.rank(golden["queries"][0], documents, top_n=2) == ranked[:2]
        raw = model.score(golden["queries"][0], documents, raw_scores=True)
        assert np.allclose(raw if name == "reranker_roberta" else 1 / (1 + np.exp(-raw)), want, atol=1e-5)
        if name == "reranker_qwen3":
            instructed = model.score(golden["queries"][0], documents, instruction="bad light")
            assert np.allclose(instructed, golden["instructed"], atol=1e-5)
        else:
            with pytest.raises(tfm.ArgumentError, match="instruction is for language models"):
                model.score("a", ["b"], instruction="bad light")


def test_queries_of_documents(context: tfm.Context) -> None:
    with tfm.Reranker(GOLDEN / "reranker", device=context) as model:
        pairs = model.score(["the cat", "a dog"], ["bread", "the river"])
        assert pairs.shape == (2,) and pairs.dtype == np.float32
        assert np.allclose(pairs, [model.score("the cat", ["bread"])[0], model.score("a dog", ["the river"])[0]], atol=1e-6)
        assert model.score("the cat", []).shape == (0,) and model.rank("the cat", []) == []
        with pytest.raises(tfm.ArgumentError, match="2 queries for 1 documents"):
            model.score(["the cat", "a dog"], ["bread"])
        with pytest.raises(tfm.InputError, match="NUL"):
            model.score("the cat", ["bread\0"])
        with pytest.raises(tfm.InputError):
            model.score("the cat", ["bread", b"\xff"])
        with pytest.raises(tfm.ArgumentError):
            model.rank("the cat", ["bread"], top_n=0)
        told: list[int] = []
        ranked = model.rank("the cat", ["bread", b"\xff"], reject=lambda line, why: told.append(line))
        assert told == [1] and [each.document for each in ranked] == [0]


def test_embedding_model_scores_equal_the_programs(context: tfm.Context, program: Program) -> None:
    documents = ["the cat sits in the garden", "a dog", "the river"]
    text = "".join(line + "\n" for line in documents).encode()
    rows = program("rerank", "-m", GOLDEN / "embedder", "the cat", "--json", input=text).decode().splitlines()
    with tfm.Reranker(GOLDEN / "embedder", device=context) as model:
        ranked = model.rank("the cat", documents)
    for row, each in zip(map(json.loads, rows), ranked, strict=True):
        assert row["index"] == each.document and abs(row["score"] - each.score) < 1e-6


def test_other_models_are_refused(context: tfm.Context) -> None:
    with pytest.raises(tfm.ArgumentError, match="not a model for tfm.Reranker"):
        tfm.Reranker(GOLDEN / "classifier", device=context)
