"""Encoder-only models: embeddings, classification and fill-mask."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ._library import (NULL, Callbacks, Lines, Text, c_path, c_text, choice, count_of, ffi, lib, put, set_adapters,
                       set_precision, several, texts, to_str)
from ._options import keywords
from ._stream import Bar, Progress
from .errors import ArgumentError
from .model import Adapters, DeviceLike, Model, Path, Reject

Vectors = npt.NDArray[np.floating[Any]]
Pooling = Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", "none"]
_POOLINGS = ("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", "none")


class MaskPrediction(NamedTuple):
    """One prediction for a mask token."""

    text: str  #: the token as text
    probability: float  #: its probability
    id: int  #: its token id


class _Call:
    """The options of a call on lines, with the objects they point to."""

    def __init__(self, count: int, lines: Lines, about: str, progress: Progress, reject: Reject | None,
                 batch_tokens: int | None, prompt: str | None, text_pairs: Iterable[Text] | None) -> None:
        self.calls = Callbacks()
        self.bar = Bar(progress, about)
        self.options: Any = ffi.new("tfm_embed_options *")
        self.options.line_bytes = lines.bytes
        put(self.options, batch_tokens=count_of(batch_tokens, "batch_tokens"))
        self.options.progress = self.calls.make("tfm_progress_fn", self.bar)
        self._prompt = c_text(prompt)
        self.options.prompt = self._prompt
        if reject is not None:
            self.options.reject = self.calls.make("tfm_reject_fn", lambda line, why: reject(line, to_str(why)))
        if text_pairs is not None:
            seconds = several(text_pairs)
            if len(seconds) != count:
                raise ValueError(f"there are {len(seconds)} second texts for {count} lines: give one for each")
            self._pairs = Lines(seconds)
            self.options.text_pairs = self._pairs.text


class Embedder(Model):
    """An embedding model: a sentence-transformers directory, or an encoder such as BERT.

        vectors = tfm.Embedder("all-MiniLM-L6-v2").encode(["a cat", "a dog"])

    `pooling` and `normalize` (L2) override the directory; None keeps its setting. With pooling "none", and a model of
    late interaction (ColBERT), texts are encoded by `encode_tokens`."""

    @keywords()
    def __init__(self, path: Path, *, device: DeviceLike = None, precision: str | None = None,
                 activation_precision: str | None = None, pooling: Pooling | None = None,
                 normalize: bool | None = None, adapters: Adapters | None = None) -> None:
        self._pooling, self._normalize = pooling, normalize
        super().__init__(path, device=device, precision=precision, activation_precision=activation_precision,
                         adapters=adapters)

    def _open(self, path: Path, precision: str | None, tokenizer: bool) -> None:
        handle, options = ffi.new("tfm_embedder **"), ffi.new("tfm_embedder_options *")
        kept = (set_adapters(options, self._adapters), set_precision(options, precision),
                set_precision(options, self._activation_precision, "activation_precision"))
        options.no_tokenizer = not tokenizer
        if self._pooling is not None:
            pooling = choice(_POOLINGS, self._pooling, "pooling")
            options.no_pooling = self._pooling == "none"
            options.has_pooling, options.pooling = not options.no_pooling, 0 if options.no_pooling else pooling
        options.normalize = 0 if self._normalize is None else 1 if self._normalize else 2
        self.context.open(lib.tfm_embedder_open, lib.tfm_fleet_open_embedder, handle, c_path(path), options)
        del kept
        self._embedder = handle
        self._adopt(ffi.new("tfm_model *[1]", [lib.tfm_embedder_model(handle[0])]), handle, lib.tfm_embedder_free)

    @property
    def width(self) -> int:
        """The embedding dimension."""
        with self._use():
            return int(lib.tfm_embedder_get_info(self._embedder[0]).width)

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of a text; longer texts are truncated."""
        with self._use():
            return int(lib.tfm_embedder_get_info(self._embedder[0]).max_tokens)

    @property
    def prompts(self) -> dict[str, str]:
        """The directory's prompts (prefixes of texts) by name."""
        with self._use():
            count = lib.tfm_embedder_get_info(self._embedder[0]).prompt_count
            names = [lib.tfm_embedder_prompt_name(self._embedder[0], i) for i in range(count)]
            return {to_str(name): to_str(lib.tfm_embedder_prompt(self._embedder[0], name)) for name in names}

    def _prompt_of(self, prompt: str | None, prompt_name: str | None) -> str | None:
        if prompt_name is None:
            return prompt
        if prompt is not None:
            raise ArgumentError("prompt and prompt_name cannot be combined: give one of them")
        known = self.prompts
        if prompt_name not in known:
            raise ArgumentError(f"there is no prompt {prompt_name!r}; the model has {', '.join(known) or 'none'}")
        return known[prompt_name]

    @keywords()
    def encode(self, lines: Text | Iterable[Text], *, prompt: str | None = None, prompt_name: str | None = None,
               batch_tokens: int | None = None, reject: Reject | None = None, progress: Progress = False,
               out: npt.NDArray[np.float32] | None = None, dimensions: int | None = None) -> npt.NDArray[np.float32]:
        """Computes embeddings: a row for each text, or one vector for a single text. `prompt`, or the directory's
        prompt named `prompt_name`, is put before each text. `out` receives the result without a copy. With `reject`,
        the row of a bad line is NaN. `dimensions` shortens rows to their first numbers, scaled to unit length, as for
        Matryoshka models; not with `out`."""
        found, single = texts(lines)
        prompt = self._prompt_of(prompt, prompt_name)
        if dimensions is not None and out is not None:
            raise ArgumentError("dimensions and out cannot be combined: give one of them")
        width = self.width if dimensions is None else count_of(dimensions, "dimensions")
        if width > self.width:
            raise ArgumentError(f"dimensions is {dimensions}, and embeddings have {self.width}: give at most as many")
        vectors = np.empty((len(found), self.width), np.float32) if out is None else out
        fits = vectors.shape == (len(found), self.width) and vectors.dtype == np.float32
        if not (fits and vectors.flags.c_contiguous and vectors.flags.writeable):
            raise ArgumentError(f"out must be a writable float32 array of {len(found)} x {self.width} in C order")
        if found:
            given = Lines(found)
            call = _Call(given.count, given, "embedding", progress, reject, batch_tokens, prompt, None)
            numbers = ffi.cast("float *", ffi.from_buffer(vectors))
            self._run(call.calls, lambda _: int(
                lib.tfm_embed(self._embedder[0], numbers, given.text, given.count, call.options)))
            call.bar.close()
            if width < self.width:
                lib.tfm_embeddings_truncate(numbers, len(found), self.width, width)
        if width < self.width:
            vectors = vectors.reshape(-1)[:len(found) * width].reshape(len(found), width).copy()
        return vectors[0] if single else vectors

    @keywords()
    def encode_tokens(self, lines: Text | Iterable[Text], *, query: bool = False, prompt: str | None = None,
                      prompt_name: str | None = None, batch_tokens: int | None = None, reject: Reject | None = None,
                      progress: Progress = False) -> Any:
        """Vectors of tokens, of a model without pooling: an array (tokens, width) for each text in a list, or one for a
        single text. `query` says that texts are queries, not documents, of late interaction (ColBERT). With `reject`,
        a bad line has no row. `tfm.Reranker` scores documents by these vectors (MaxSim)."""
        found, single = texts(lines)
        vectors = [np.empty((0, self.width), np.float32) for _ in found]
        if found:
            given = Lines(found)
            call = _Call(given.count, given, "embedding", progress, reject, batch_tokens,
                         self._prompt_of(prompt, prompt_name), None)

            def on_vectors(one: Any) -> None:
                bytes_ = ffi.buffer(one.vectors, 4 * one.count * one.width)
                vectors[one.line] = np.frombuffer(bytes_, np.float32).reshape(one.count, one.width).copy()

            on: Callable[..., Any] = call.calls.make("tfm_token_vectors_fn", on_vectors)
            self._run(call.calls, lambda _: int(lib.tfm_embed_tokens(
                self._embedder[0], given.text, given.count, int(query), call.options, on, NULL)))
            call.bar.close()
        return vectors[0] if single else vectors

    def similarity(self, a: Text | Iterable[Text] | Vectors, b: Text | Iterable[Text] | Vectors | None = None,
                   ) -> npt.NDArray[np.float32]:
        """The cosine similarity of each of `a` with each of `b` (default: of `a`): an array (a, b). Both are
        embeddings, or texts to encode; a single text or vector is one row."""
        left = self._unit_rows(a)
        return left @ (left if b is None else self._unit_rows(b)).T

    def _unit_rows(self, given: Text | Iterable[Text] | Vectors) -> npt.NDArray[np.float32]:
        found = np.atleast_2d(given if isinstance(given, np.ndarray) else self.encode(given))
        if found.ndim != 2 or found.dtype.kind != "f":
            raise ArgumentError(f"similarity takes texts or rows of numbers, not {found.dtype} of shape {found.shape}")
        vectors = np.asarray(found, np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


class Encoder(Model):
    """An encoder with a classification or masked-LM head."""

    _kind = "encoder"

    @property
    def classes(self) -> list[str]:
        """The class names; empty without a classification head."""
        with self._use() as model:
            return [to_str(lib.tfm_model_class_name(model, i)) for i in range(lib.tfm_model_class_count(model))]

    @keywords()
    def classify(self, lines: Iterable[Text], *, text_pairs: Iterable[Text] | None = None,
                 batch_tokens: int | None = None, reject: Reject | None = None, progress: Progress = False
                 ) -> npt.NDArray[np.float32]:
        """Class probabilities (lines, classes). `text_pairs` are second texts, read together with the lines."""
        lines = several(lines)
        scores = np.empty((len(lines), len(self.classes)), np.float32)
        if lines:
            given = Lines(lines)
            call = _Call(given.count, given, "classifying", progress, reject, batch_tokens, None, text_pairs)
            room = scores if scores.size else np.empty(1, np.float32)  # not NULL: the library reports the error
            numbers = ffi.cast("float *", ffi.from_buffer(room))
            self._run(call.calls, lambda model: int(
                lib.tfm_classify(model, numbers, given.text, given.count, call.options)))
            call.bar.close()
        return scores

    @keywords()
    def fill_mask(self, lines: Iterable[Text], *, top_k: int = 5, batch_tokens: int | None = None,
                  reject: Reject | None = None, progress: Progress = False) -> list[list[list[MaskPrediction]]]:
        """The most probable tokens for each mask ("[MASK]" or "<mask>") of each line."""
        lines = several(lines)
        found: list[list[list[MaskPrediction]]] = [[] for _ in lines]
        if not lines:
            return found
        given = Lines(lines)
        call = _Call(given.count, given, "predicting", progress, reject, batch_tokens, None, None)

        def on_prediction(word: Any) -> None:
            if word.rank == 0:
                found[word.line].append([])
            found[word.line][-1].append(MaskPrediction(to_str(word.text), word.probability, word.id))

        on: Callable[..., Any] = call.calls.make("tfm_mask_prediction_fn", on_prediction)
        self._run(call.calls, lambda model: int(
            lib.tfm_fill_mask(model, given.text, given.count, top_k, call.options, on, NULL)))
        call.bar.close()
        return found

    @keywords()
    def sparse(self, lines: Iterable[Text], *, batch_tokens: int | None = None, reject: Reject | None = None,
               progress: Progress = False) -> list[dict[int, float]]:
        """Sparse embeddings (SPLADE): the weight of each token id that is above 0. Similarities are dot products."""
        lines = several(lines)
        found: list[dict[int, float]] = [{} for _ in lines]
        if not lines:
            return found
        given = Lines(lines)
        call = _Call(given.count, given, "embedding", progress, reject, batch_tokens, None, None)

        def on_vector(vector: Any) -> None:
            found[vector.line] = {vector.ids[i]: vector.weights[i] for i in range(vector.count)}

        on: Callable[..., Any] = call.calls.make("tfm_sparse_embedding_fn", on_vector)
        self._run(call.calls, lambda model: int(
            lib.tfm_embed_sparse(model, given.text, given.count, call.options, on, NULL)))
        call.bar.close()
        return found
