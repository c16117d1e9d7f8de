"""Reranking: the relevance of documents to a query."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._library import (Callbacks, Lines, Text, c_path, c_text, check, count_of, ffi, lib, put, set_adapters,
                       set_precision, several, texts, to_bytes, to_str)
from ._options import keywords
from ._stream import Bar, Progress
from .chat_template import ChatTemplate
from .errors import ArgumentError, InputError
from .model import Adapters, DeviceLike, Model, Path, Reject


class Ranked(NamedTuple):
    """One result of a ranking."""

    document: int  #: the index of the document in the list
    score: float  #: its relevance: a higher score is a more relevant document


class Reranker(Model):
    """A model that scores the relevance of documents to a query: a cross-encoder (an encoder with a classification head
    of one class), a language model such as Qwen3-Reranker, or an embedding model, by the cosine of both vectors.

        for document, score in tfm.Reranker("ms-marco-MiniLM-L6-v2").rank("old houses", ["a new car", "an old barn"]):
            print(document, score)"""

    @keywords()
    def __init__(self, path: Path, *, device: DeviceLike = None, precision: str | None = None,
                 activation_precision: str | None = None, adapters: Adapters | None = None) -> None:
        super().__init__(path, device=device, precision=precision, activation_precision=activation_precision,
                         adapters=adapters)

    def _check_kind(self, path: Path) -> None:
        kind = ffi.new("tfm_rerank_kind *")
        check(lib.tfm_rerank_read_kind(kind, c_path(path)))
        if kind[0] == lib.TFM_RERANK_NONE:
            raise ArgumentError(f"{path} is not a model for tfm.Reranker: it is neither an encoder with a classification "
                                "head of one class, nor a language model, nor an embedding model")
        self._embeds = bool(kind[0] == lib.TFM_RERANK_EMBEDDER)
        self._chat = ChatTemplate(path) if kind[0] == lib.TFM_RERANK_LANGUAGE_MODEL else None

    def _open(self, path: Path, precision: str | None, tokenizer: bool) -> None:
        if not self._embeds:
            super()._open(path, precision, tokenizer)
            return
        handle, options = ffi.new("tfm_embedder **"), ffi.new("tfm_embedder_options *")
        kept = (set_adapters(options, self._adapters), set_precision(options, precision),
                set_precision(options, self._activation_precision, "activation_precision"))
        self.context.open(lib.tfm_embedder_open, lib.tfm_fleet_open_embedder, handle, c_path(path), options)
        del kept
        self._embedder = handle
        self._adopt(ffi.new("tfm_model *[1]", [lib.tfm_embedder_model(handle[0])]), handle, lib.tfm_embedder_free)

    @keywords()
    def score(self, queries: Text | Iterable[Text], documents: Iterable[Text], *, instruction: str | None = None,
              raw_scores: bool = False, batch_tokens: int | None = None, reject: Reject | None = None,
              progress: Progress = False) -> npt.NDArray[np.float32]:
        """The score of each document for the query, or for its own if `queries` are as many. `raw_scores` are logits,
        without the model's activation, a sigmoid by default; `instruction` is the task of a language model. With
        `reject`, the score of a bad document is NaN."""
        lines = several(documents)
        asked, single = texts(queries)
        if not single and len(asked) != len(lines):
            raise ArgumentError(f"there are {len(asked)} queries for {len(lines)} documents: give one, or as many")
        if any(b"\0" in to_bytes(text) for text in [*asked, *lines]):
            raise InputError("a query or a document has a NUL in it: remove it")
        if instruction is not None and self._chat is None:
            raise ArgumentError("instruction is for language models: omit it")
        scores = np.empty(len(lines), np.float32)
        if not lines:
            return scores
        given, of = Lines(lines), Lines(asked * len(lines) if single else asked)
        calls, bar, options = Callbacks(), Bar(progress, "reranking"), ffi.new("tfm_rerank_options *")
        kept = c_text(instruction)
        put(options, batch_tokens=count_of(batch_tokens, "batch_tokens"), raw_scores=bool(raw_scores))
        options.queries, options.instruction = of.text, kept
        options.progress = calls.make("tfm_progress_fn", bar)
        if self._chat is not None:
            options.chat = self._chat._pointer
        if reject is not None:
            options.reject = calls.make("tfm_reject_fn", lambda line, why: reject(line, to_str(why)))
        numbers = ffi.cast("float *", ffi.from_buffer(scores))
        query = ffi.NULL

        def call(model: Any) -> int:
            function, first = ((lib.tfm_embedder_rerank, self._embedder[0]) if self._embeds
                               else (lib.tfm_rerank, model))
            return int(function(first, numbers, query, given.text, given.count, options))

        self._run(calls, call)
        bar.close()
        del kept
        return scores

    @keywords()
    def rank(self, query: Text, documents: Iterable[Text], *, top_n: int | None = None, instruction: str | None = None,
             raw_scores: bool = False, batch_tokens: int | None = None, reject: Reject | None = None,
             progress: Progress = False) -> list[Ranked]:
        """The documents, the most relevant first; the first `top_n` of them. Bad ones, with `reject`, are left out.
        The other options are those of `score`."""
        if not isinstance(query, (str, bytes)):
            raise TypeError(f"query is str or bytes, not {type(query).__name__}")
        scores = self.score(query, documents, instruction=instruction, raw_scores=raw_scores, batch_tokens=batch_tokens,
                            reject=reject, progress=progress)
        order = [int(i) for i in np.argsort(-scores, kind="stable") if not np.isnan(scores[i])]
        return [Ranked(i, float(scores[i])) for i in order[:count_of(top_n, "top_n") or None]]
