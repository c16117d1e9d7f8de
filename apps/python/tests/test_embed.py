"""Embeddings, classification and fill-mask have the same numbers as the program."""
from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import tfm
from conftest import GOLDEN, Program

LINES = ["the cat sits in the garden", "a dog", "", "the river and the water"]
TEXT = "".join(line + "\n" for line in LINES).encode()


@pytest.fixture(scope="module")
def embedder(context: tfm.Context) -> Iterator[tfm.Embedder]:
    with tfm.Embedder(GOLDEN / "embedder", device=context) as model:
        yield model


def test_embeddings_equal_the_programs(embedder: tfm.Embedder, program: Program) -> None:
    rows = program("embed", "-m", GOLDEN / "embedder", input=TEXT).decode().splitlines()
    want = np.array([json.loads(row) for row in rows], np.float32)  # nine digits identify a float
    got = embedder.encode(LINES)
    assert got.dtype == np.float32 and got.shape == (4, embedder.width)
    assert (got == want).all()
    one = embedder.encode(LINES[1])
    assert one.shape == (embedder.width,) and np.allclose(one, got[1], atol=1e-6)
    assert embedder.encode([]).shape == (0, embedder.width)
    assert (embedder.encode(line for line in LINES) == got).all() and (embedder.encode(np.array(LINES)) == got).all()
    with pytest.raises(TypeError, match="str or bytes"):
        embedder.encode([None])  # type: ignore[list-item]


def test_dimensions_shorten_to_unit_length(embedder: tfm.Embedder) -> None:
    whole = embedder.encode(LINES)[:, :4]
    got = embedder.encode(LINES, dimensions=4)
    assert got.shape == (4, 4) and np.allclose(got, whole / np.linalg.norm(whole, axis=1, keepdims=True), atol=1e-6)
    assert embedder.encode(LINES[0], dimensions=4).shape == (4,)
    assert embedder.encode([], dimensions=4).shape == (0, 4)
    assert (embedder.encode(LINES, dimensions=embedder.width) == embedder.encode(LINES)).all()
    with pytest.raises(tfm.ArgumentError, match="at most as many"):
        embedder.encode(LINES, dimensions=embedder.width + 1)
    with pytest.raises(tfm.ArgumentError):
        embedder.encode(LINES, dimensions=0)


def test_embeddings_are_written_in_place(embedder: tfm.Embedder) -> None:
    room = np.zeros((6, embedder.width), np.float32)
    assert embedder.encode(LINES, out=room[1:5]).base is room
    assert (room[0] == 0).all() and (room[5] == 0).all() and (room[1:5] == embedder.encode(LINES)).all()
    with pytest.raises(tfm.ArgumentError, match="float32 array of 4 x"):
        embedder.encode(LINES, out=np.zeros((4, embedder.width), np.float64))


def test_prompts_and_bad_lines(embedder: tfm.Embedder) -> None:
    for name, text in embedder.prompts.items():
        assert (embedder.encode(LINES, prompt_name=name) == embedder.encode(LINES, prompt=text)).all()
    with pytest.raises(tfm.ArgumentError, match="no prompt 'nobody'"):
        embedder.encode(LINES, prompt_name="nobody")
    with pytest.raises(tfm.InputError):
        embedder.encode(["a", b"\xff"])
    told: list[int] = []
    got = embedder.encode(["a dog", b"\xff"], reject=lambda line, why: told.append(line))
    assert told == [1] and np.isfinite(got[0]).all() and np.isnan(got[1]).all()


def test_length_and_pooling(context: tfm.Context) -> None:
    with pytest.raises(tfm.ArgumentError, match="one of cls, mean"):
        tfm.Embedder(GOLDEN / "embedder", device=context, pooling="middle")  # type: ignore[arg-type]
    with tfm.Embedder(GOLDEN / "embedder", device=context, normalize=True) as model:
        assert np.allclose(np.linalg.norm(model.encode(LINES), axis=1), 1, atol=1e-5)
    with tfm.Embedder(GOLDEN / "masked", device=context, pooling="cls") as model:
        assert model.encode("a dog").shape == (model.width,)


def test_classes_are_the_programs(context: tfm.Context, program: Program) -> None:
    rows = program("embed", "-m", GOLDEN / "classifier", "--classify", "--format", "json", "--top-k", "9",
                   input=TEXT).decode().splitlines()
    with tfm.Encoder(GOLDEN / "classifier", device=context) as model:
        scores = model.classify(LINES)
        assert scores.shape == (4, len(model.classes))
        for row, got in zip(map(json.loads, rows), scores):
            want = {each["label"]: each["score"] for each in row["classes"]}
            assert want == pytest.approx(dict(zip(model.classes, got)), abs=1e-6)
        with pytest.raises(tfm.ArgumentError):
            model.fill_mask(["a [MASK]"])


def test_fill_mask_equals_the_programs(context: tfm.Context, program: Program) -> None:
    lines = ["the [MASK] sits in the [MASK]", "a [MASK]"]
    rows = program("embed", "-m", GOLDEN / "masked", "--fill-mask", "--format", "json", "--top-k", "3",
                   input="\n".join(lines).encode()).decode().splitlines()
    with tfm.Encoder(GOLDEN / "masked", device=context) as model:
        got = [mask for line in model.fill_mask(lines, top_k=3) for mask in line]
        want = [[(each["text"], each["id"]) for each in json.loads(row)["words"]] for row in rows]
        assert [[(guess.text, guess.id) for guess in mask] for mask in got] == want
        assert len(got) == 3
        with pytest.raises(tfm.ArgumentError):
            model.classify(["a"])


def test_sparse_embeddings_equal_the_programs(context: tfm.Context, program: Program) -> None:
    lines = ["The capital is [MASK].", "a dog"]
    rows = program("embed", "-m", GOLDEN / "masked", "--sparse", "--format", "json",
                   input="\n".join(lines).encode()).decode().splitlines()
    with tfm.Encoder(GOLDEN / "masked", device=context) as model:
        for got, row in zip(model.sparse(lines), rows, strict=True):
            assert got == pytest.approx({each["id"]: each["weight"] for each in json.loads(row)["weights"]}, abs=1e-6)
        assert model.sparse([]) == []


def test_token_vectors_equal_those_of_pylate_and_rank_documents(context: tfm.Context) -> None:
    golden = json.loads((GOLDEN / "colbert" / "golden.json").read_text())
    with tfm.Embedder(GOLDEN / "colbert", device=context) as model:
        for query, name in ((False, "documents"), (True, "queries")):
            for got, want in zip(model.encode_tokens(golden["texts"], query=query), golden[name], strict=True):
                assert got.dtype == np.float32 and np.allclose(got, want, atol=5e-6)
        one = model.encode_tokens(golden["query"], query=True)
        documents = model.encode_tokens(golden["texts"])
        with pytest.raises(tfm.UnsupportedError, match="tfm_embed_tokens"):
            model.encode("a")
    scores = [(one @ document.T).max(1).sum() for document in documents]
    assert np.allclose(scores, golden["scores"], atol=1e-4)
    with tfm.Reranker(GOLDEN / "colbert", device=context) as reranker:
        for row in reranker.rank(golden["query"], golden["texts"]):
            assert row.score == pytest.approx(golden["scores"][row.document], abs=1e-4)
    with tfm.Embedder(GOLDEN / "masked", device=context, pooling="none") as encoder:
        assert encoder.encode_tokens("the cat").shape == (4, 16) and encoder.encode_tokens([]) == []


def test_similarity_is_the_cosine_of_texts_or_vectors(embedder: tfm.Embedder) -> None:
    texts = ["the cat sits in the garden", "a dog", "the river"]
    vectors = embedder.encode(texts)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.allclose(embedder.similarity(texts), unit @ unit.T, atol=1e-6)
    assert np.allclose(embedder.similarity(vectors, texts[:1]), (unit @ unit.T)[:, :1], atol=1e-6)
    assert embedder.similarity(texts[0], vectors).shape == (1, 3)
    assert np.allclose(embedder.similarity(2 * vectors[0], texts[0]), 1, atol=1e-6)
    assert not embedder.similarity(np.zeros((1, embedder.width), np.float32), texts).any()
    with pytest.raises(tfm.ArgumentError, match="texts or rows of numbers"):
        embedder.similarity(np.array([[1, 2]]))
