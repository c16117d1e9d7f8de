"""Tokenizers, sentence splitting, and translation metrics."""
from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from ._library import NULL, Text, c_path, c_text, check, choice, ffi, lib, several, texts, to_bytes, to_str
from ._options import keywords
from .errors import ArgumentError

if TYPE_CHECKING:
    from .model import Model

Side = Literal["source", "target"]
_SIDES = ("source", "target")
_CUTS = ("13a", "none", "char")
_SPECIAL = ("source_eos", "source_unk", "source_pad", "target_eos", "target_unk", "target_pad", "bos", "cls", "sep", "mask")


def ids_array(ids: Any, count: int) -> npt.NDArray[np.int32]:
    """A copy of ids as an array."""
    if count == 0:
        return np.empty(0, np.int32)
    return np.frombuffer(ffi.buffer(ids, 4 * count), np.int32).copy()


def floats_array(numbers: Any, *dims: int) -> npt.NDArray[np.float32]:
    """A copy of floats as an array."""
    count = int(np.prod(dims))
    if count == 0:
        return np.empty(dims, np.float32)
    return np.frombuffer(ffi.buffer(numbers, 4 * count), np.float32).reshape(dims).copy()


def _side(side: Side) -> int:
    return choice(_SIDES, side, "side")


def ids_given(ids: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Ids for the library: a 1-D int32 array, from any integer type."""
    found = np.asarray(ids)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ArgumentError(f"ids must be a 1-D array of integers, not {found.dtype} of shape {found.shape}")
    if found.size and (int(found.max()) > 2**31 - 1 or int(found.min()) < -(2**31)):
        raise ArgumentError("ids must fit into 32 bits")
    return np.ascontiguousarray(found, np.int32)


class Tokenizer:
    """The tokenizer of a model directory: Marian, Bergamot, tokenizer.json or older Hugging Face formats. Any number
    of threads may use one at the same time. Exception: a model's own (`model.tokenizer`) is serialized with the
    model, and ends with it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        handle = ffi.new("tfm_tokenizer **")
        check(lib.tfm_tokenizer_open(handle, c_path(path)))
        self._pointer: Any = handle[0]
        self._model: Model | None = None
        self._finalizer = weakref.finalize(self, lib.tfm_tokenizer_free, handle)

    @classmethod
    def _of_model(cls, pointer: Any, model: Model) -> Tokenizer:
        """The tokenizer of a model."""
        tokenizer = cls.__new__(cls)
        tokenizer._pointer, tokenizer._model = pointer, model
        return tokenizer

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """Yields the pointer, protected from being freed."""
        if self._model is None:
            yield self._pointer
        else:
            with self._model._use():
                yield self._pointer

    @overload
    def encode(self, text: Text, *, side: Side = "source",  # type: ignore[overload-overlap]
               add_special_tokens: bool = True, language: str | None = None,
               text_pair: Text | None = None) -> npt.NDArray[np.int32]: ...

    @overload
    def encode(self, text: Iterable[Text], *, side: Side = "source", add_special_tokens: bool = True,
               language: str | None = None, text_pair: Iterable[Text] | None = None) -> list[npt.NDArray[np.int32]]: ...

    @keywords(special="add_special_tokens")
    def encode(self, text: Text | Iterable[Text], *, side: Side = "source", add_special_tokens: bool = True,
               language: str | None = None, text_pair: Text | Iterable[Text] | None = None) -> Any:
        """Encodes a text to ids, or several texts to a list of ids, with the model's special tokens unless
        `add_special_tokens` is False. `text_pair` is a second text for each."""
        found, single = texts(text)
        if text_pair is None:
            pairs: list[Text | None] = [None] * len(found)
        else:
            second, one = texts(text_pair)
            if one != single or len(second) != len(found):
                raise ValueError("text_pair is one text for a single text, or a list of as many as there are texts")
            pairs = list(second)
        ids = [self._encode(each, other, side, add_special_tokens, language) for each, other in zip(found, pairs)]
        return ids[0] if single else ids

    def _encode(self, text: Text, pair: Text | None, side: Side, add_special_tokens: bool,
                language: str | None) -> npt.NDArray[np.int32]:
        options, out, count = ffi.new("tfm_encode_options *"), ffi.new("int32_t **"), ffi.new("size_t *")
        line = to_bytes(text)
        kept = (c_text(language), c_text(pair))
        options.no_special_tokens = not add_special_tokens
        options.language, options.text_pair = kept
        options.text_pair_bytes = 0 if pair is None else len(to_bytes(pair))
        with self._use() as pointer:
            check(lib.tfm_tokenizer_encode_with(pointer, out, count, _side(side), ffi.from_buffer(line), len(line),
                                                options))
        try:
            return ids_array(out[0], count[0])
        finally:
            lib.tfm_ids_free(out)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Decodes ids of the target side to text, without special tokens."""
        numbers = ids_given(ids)
        out = ffi.new("char **")
        at = ffi.cast("int32_t *", ffi.from_buffer(numbers)) if numbers.size else NULL
        with self._use() as pointer:
            check(lib.tfm_tokenizer_decode(pointer, out, at, numbers.size))
        try:
            return to_str(out[0])
        finally:
            lib.tfm_text_free(out)

    def piece(self, id: int, side: Side = "target") -> str | None:
        """The piece of an id, such as "▁Haus", or None."""
        with self._use() as pointer:
            found = lib.tfm_tokenizer_piece(pointer, _side(side), id)
            return None if found == NULL else to_str(found)

    def piece_id(self, piece: Text, side: Side = "source") -> int | None:
        """The id of a piece, or None."""
        with self._use() as pointer:
            found = int(lib.tfm_tokenizer_piece_id(pointer, _side(side), c_text(piece)))
        return None if found < 0 else found

    def language(self, side: Side = "source") -> str | None:
        """The language of a side in the directory, such as "de", or None."""
        with self._use() as pointer:
            found = lib.tfm_tokenizer_language(pointer, _side(side))
            return None if found == NULL else to_str(found)

    def special(self, name: str) -> int | None:
        """The id of a special token: "source_eos", "target_pad", "bos", "cls", "sep", "mask" and so on, or None."""
        choice(_SPECIAL, name, "special token")
        with self._use() as pointer:
            found = int(getattr(lib.tfm_tokenizer_get_info(pointer)[0], name))
        return None if found < 0 else found


def sentences(text: Text, language: str | None = None) -> list[str]:
    """Splits a line into sentences, by Unicode's rules and the language's abbreviations, without surrounding blanks."""
    line = to_bytes(text)
    out, count = ffi.new("tfm_sentence **"), ffi.new("size_t *")
    check(lib.tfm_text_sentences(out, count, ffi.from_buffer(line), len(line), c_text(language)))
    try:
        found = [out[0][i] for i in range(count[0])]
        return [line[s.start:s.start + s.bytes].decode() for s in found]
    finally:
        lib.tfm_sentences_free(out)


class Score(NamedTuple):
    """The log probability of a text or of a translation."""

    log_prob: float  #: the sum of log p of the tokens; NaN for a rejected text or pair, or one without tokens
    tokens: int  #: the number of tokens

    @property
    def average(self) -> float:
        """The mean of log p over the tokens."""
        return self.log_prob / self.tokens if self.tokens else float("nan")


@dataclass(frozen=True)
class Quality:
    """Translation metrics, equal to those of sacreBLEU."""

    bleu: float  #: BLEU, from 0 to 100
    chrf: float  #: chrF2, from 0 to 100
    signature: str  #: the signature of BLEU


@keywords()
def evaluate(translations: Iterable[Text], references: Iterable[Text], *, lowercase: bool = False,
             tokenize: Literal["13a", "none", "char"] = "13a") -> Quality:
    """BLEU and chrF2 of translations, with one reference each."""
    translations, references = several(translations), several(references)
    if len(translations) != len(references):
        raise ValueError(f"there are {len(translations)} translations and {len(references)} references: "
                         "give a reference for each")
    options, handle = ffi.new("tfm_metrics_options *"), ffi.new("tfm_metrics **")
    options.tokenizer, options.lowercase = choice(_CUTS, tokenize, "tokenizer"), lowercase
    check(lib.tfm_metrics_new(handle, options))
    try:
        for got, wanted in zip(map(to_bytes, translations), map(to_bytes, references)):
            check(lib.tfm_metrics_add(handle[0], ffi.from_buffer(got), len(got), ffi.from_buffer(wanted), len(wanted)))
        return Quality(float(lib.tfm_metrics_bleu(handle[0]).score), float(lib.tfm_metrics_chrf(handle[0])),
                       to_str(lib.tfm_metrics_signature(handle[0])))
    finally:
        lib.tfm_metrics_free(handle)
