"""Translation."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ._library import (NULL, Callbacks, Lines, Text, c_text, check, choice, count_of, ffi, lib, put, several, texts,
                       to_bytes, to_str)
from ._options import LengthNorm, TranslateOptions, keywords
from ._stream import Bar, Progress, stream
from ._tokens import TokensMixin
from .attention import Attention, attention_maps
from .errors import InputError
from .model import Model, Reject
from .text import Score, floats_array, ids_array

if TYPE_CHECKING:
    from typing_extensions import Unpack

_AHEAD = 1024  # lines that `stream` batches by length at a time
_LENGTH_NORMS = ("paper", "hf")


class Translation(str):
    """A translation: the text, with scores and tokens."""

    line: int  #: the line, counted from 0
    rank: int  #: its rank, counted from 0
    score: float  #: the ranking score; NaN for a line without words, 0 if greedy with return_scores=False
    log_prob: float  #: the sum of log p of its tokens; 0 likewise
    sentences: int  #: the number of its sentences
    tokens: list[str]  #: its pieces, with return_scores or return_alignments; else empty
    ids: npt.NDArray[np.int32]  #: their ids
    log_probs: npt.NDArray[np.float32]  #: log p of each
    source_tokens: list[str]  #: the source pieces, with return_alignments; else empty
    alignment: npt.NDArray[np.float32] | None  #: (tokens, source_tokens), with return_alignments

    def __new__(cls, text: str) -> Translation:
        made = super().__new__(cls, text)
        made.line = made.rank = made.sentences = 0
        made.score = made.log_prob = float("nan")
        made.tokens, made.source_tokens, made.alignment = [], [], None
        made.ids, made.log_probs = np.empty(0, np.int32), np.empty(0, np.float32)
        return made


def _translation(t: Any, tokens: bool, alignments: bool) -> Translation:
    made = Translation(to_str(t.text))
    made.line, made.rank, made.sentences = t.line, t.rank, t.sentences
    made.score, made.log_prob = t.score, t.log_prob
    if tokens or alignments:
        count = t.target.count
        made.tokens = [to_str(t.target.tokens[i]) for i in range(count)]
        made.ids = ids_array(t.target.ids, count)
        made.log_probs = floats_array(t.log_probs, count)
    if alignments:
        made.source_tokens = [to_str(t.source.tokens[i]) for i in range(t.source.count)]
        if t.alignment != NULL:
            made.alignment = floats_array(t.alignment, t.target.count, t.source.count)
    return made


class Translator(TokensMixin, Model):
    """A translation model: the directory of an encoder-decoder.

        with tfm.Translator("opus-mt-de-en") as model:
            print(model.translate("Guten Morgen. Wo ist Tom?"))
    """

    _kind = "encoder-decoder"

    def _translate(self, lines: Sequence[Text], emit: Any, *, n_best: int | None = None, beam_size: int | None = None,
                   length_penalty: float | None = None, length_norm: LengthNorm = "paper",
                   max_length: int | None = None, return_scores: bool | None = None, return_alignments: bool = False,
                   alignment_layer: int = 0, alignment_head: int = 0, split: bool | None = None,
                   language: str | None = None, source_language: str | None = None, target_language: str | None = None,
                   source_prefix: str | None = None, prefixes: Sequence[Text | None] | None = None,
                   truncate: bool = False, batch_tokens: int | None = None, keep: bool | Sequence[str] = True,
                   glossary: Mapping[str, str] | None = None, reject: Reject | None = None,
                   progress: Progress = False) -> None:
        if not lines:
            return
        if isinstance(length_penalty, str):  # the former name of length_norm
            raise TypeError(f"length_penalty is a number, the exponent: use length_norm={length_penalty!r}")
        given, calls, bar = Lines(lines), Callbacks(), Bar(progress, "translating")
        search, text = ffi.new("tfm_search_options *"), ffi.new("tfm_text_options *")
        kept = [c_text(each) for each in (language, source_language, target_language, source_prefix)]
        put(search, beam_size=count_of(beam_size, "beam_size"), n_best=count_of(n_best, "n_best"),
            max_length=count_of(max_length, "max_length"), length_penalty=length_penalty or 0)
        search.has_length_penalty = length_penalty is not None
        search.length_norm = choice(_LENGTH_NORMS, length_norm, "length norm")
        search.skip_scores = return_scores is not None and not return_scores
        search.should_continue = calls.make("bool(*)(void *)", lambda: True)  # lets Python handle Ctrl-C
        text.line_bytes, text.truncate = given.bytes, truncate
        put(text, batch_tokens=count_of(batch_tokens, "batch_tokens"), alignment_layer=alignment_layer,
            alignment_head=alignment_head)
        text.split = split if split is not None else (n_best or 1) == 1
        text.language, text.source_language, text.target_language, text.source_prefix = kept
        text.alignments = return_alignments
        text.placeholders = placeholders = _placeholders(keep)
        words = [(c_text(term), c_text(wanted)) for term, wanted in (glossary or {}).items()]
        text.glossary = terms = ffi.new("tfm_glossary_term[]", words)
        text.glossary_count = len(words)
        text.progress = calls.make("tfm_progress_fn", bar)
        if prefixes is not None:
            if isinstance(prefixes, (str, bytes)):
                raise TypeError("prefixes are one for each text: put it into a list")
            begun = [c_text(each) for each in prefixes]
            if len(begun) != given.count:
                raise ValueError(f"there are {len(begun)} prefixes for {given.count} lines: give one or None for each")
            text.prefixes = beginnings = ffi.new("char const *[]", begun)
        else:
            beginnings = None
        if reject is not None:
            text.reject = calls.make("tfm_reject_fn", lambda line, why: reject(line, to_str(why)))

        def on_translation(t: Any) -> Any:
            if t.rank > 0 and t.score == float("-inf"):  # no more hypotheses
                return True
            return emit(_translation(t, bool(return_scores), return_alignments))

        on = calls.make("tfm_translation_fn", on_translation)
        try:
            self._run(calls, lambda model: int(
                lib.tfm_translate_lines(model, given.text, given.count, text, search, on, NULL)))
        finally:
            bar.close()
            del kept, beginnings, placeholders, words, terms

    @overload
    def translate(self, lines: Text, *, n_best: None = None,  # type: ignore[overload-overlap]
                  **options: Unpack[TranslateOptions]) -> Translation: ...

    @overload
    def translate(self, lines: Text, *, n_best: int,  # type: ignore[overload-overlap]
                  **options: Unpack[TranslateOptions]) -> list[Translation]: ...

    @overload
    def translate(self, lines: Iterable[Text], *, n_best: None = None,
                  **options: Unpack[TranslateOptions]) -> list[Translation]: ...

    @overload
    def translate(self, lines: Iterable[Text], *, n_best: int,
                  **options: Unpack[TranslateOptions]) -> list[list[Translation]]: ...

    @keywords(_translate)
    def translate(self, lines: Text | Iterable[Text], *, n_best: int | None = None,
                  **options: Unpack[TranslateOptions]) -> Any:
        """Translates a text, or each of several.

        A translation is a `str` with a score. `n_best` returns a list of the best ones for each text. Other options:

        beam_size           the beam size; 1 is greedy search (default: the model's own, else 4)
        length_penalty      the exponent A of the length penalty (default 0.6, or with length_norm="hf" the model's own)
        length_norm         "paper": score = sum log p / ((5 + n) / 6)^A; "hf": score = sum log p / n^A
        max_length          the maximum number of tokens of a translation (default: those of the source + 50)
        return_scores       True also returns tokens with their log probabilities; False skips scores: those of a greedy
                            search are 0, and decoding may be faster on CPUs
        return_alignments   returns the cross-attention of each target token over the source tokens
        alignment_layer, alignment_head    counted from 1: the layer (default: the last) and head (default: the mean)
        split               translates the sentences of a text one by one (default: True, but False with n_best above 1)
        language            the source language, for sentence splitting (default: the model's)
        source_language, target_language   the languages of a multilingual model
        source_prefix       a prefix of each source text, such as T5's
        prefixes            the beginning of each translation, or None
        keep                True copies placeholders ({name}, %s, ...), tags, URLs and emoji; a list adds patterns
                            (PCRE2); False copies nothing
        glossary            terms of the source with their translations, which translations of texts with them have
        truncate            truncates texts longer than the model takes; otherwise they are rejected
        batch_tokens        the maximum number of source tokens in a batch (default 4096)
        reject              called with the index of a bad line and the reason; otherwise it raises InputError
        progress            True for a tqdm bar, or a function of the work done and the total
        """
        given, single = texts(lines)
        found: list[list[Translation]] = [[] for _ in given]
        self._translate(given, lambda t: found[t.line].append(t), n_best=n_best, **options)
        best: list[Any] = list(found) if n_best is not None else [each[0] for each in found]
        return best[0] if single else best

    @keywords(_translate)
    def stream(self, lines: Iterable[Text], *, n_best: int | None = None,
               **options: Unpack[TranslateOptions]) -> Iterator[Translation]:
        """Translates any number of lines, such as an open file, and yields each translation as soon as it and all
        earlier ones are done. Line ends are removed. The options are those of `translate`."""
        rest = iter(lines)
        first = 0
        while chunk := [_without_end(line) for line in islice(rest, _AHEAD)]:

            def run(emit: Any, chunk: list[Text] = chunk, before: int = first) -> None:
                told: TranslateOptions = {**options}
                reject, prefixes = options.get("reject"), options.get("prefixes")
                if reject is not None:  # with the index over all lines
                    told["reject"] = lambda line, why: reject(line + before, why)
                if prefixes is not None:
                    told["prefixes"] = prefixes[before:before + len(chunk)]
                self._translate(chunk, emit, n_best=n_best, **told)

            for translation in stream(run):
                translation.line += first
                yield translation
            first += len(chunk)

    @keywords()
    def score(self, sources: Iterable[Text], targets: Iterable[Text], *, source_language: str | None = None,
              target_language: str | None = None, source_prefix: str | None = None, truncate: bool = False,
              batch_tokens: int | None = None, reject: Reject | None = None,
              progress: Progress = False) -> list[Score]:
        """Scores given translations: log p of each target given its source."""
        sources, targets = several(sources), several(targets)
        if len(sources) != len(targets):
            raise ValueError(f"there are {len(sources)} sources and {len(targets)} targets: give a target for each")
        if not sources:
            return []
        bad: set[int] = set()
        calls, bar = Callbacks(), Bar(progress, "scoring")
        pairs = [[to_bytes(text) for text in side] for side in (sources, targets)]
        for i in range(len(sources)):
            why = _why_bad(pairs[0][i]) or _why_bad(pairs[1][i])
            if why is None:
                continue
            if reject is None:
                raise InputError(f"line {i + 1}: {why}")
            if reject(i, why) is False:
                raise InputError(f"line {i + 1}: {why}")
            bad.add(i)
            pairs[0][i] = pairs[1][i] = b""
        source, target = Lines(pairs[0]), Lines(pairs[1])
        text = ffi.new("tfm_text_options *")
        kept = [c_text(each) for each in (source_language, target_language, source_prefix)]
        text.source_language, text.target_language, text.source_prefix = kept
        put(text, batch_tokens=count_of(batch_tokens, "batch_tokens"))
        text.truncate = truncate
        text.progress = calls.make("tfm_progress_fn", bar)
        if reject is not None:
            text.reject = calls.make("tfm_reject_fn", lambda line, why: reject(line, to_str(why)))
        found: list[Score] = []

        def on_score(line: int, log_prob: float, tokens: int) -> None:
            found.append(Score(float("nan"), 0) if line in bad else Score(log_prob, tokens))

        on = calls.make("tfm_score_fn", on_score)
        try:
            self._run(calls, lambda model: int(
                lib.tfm_score(model, source.text, target.text, source.count, text, on, NULL)))
        finally:
            bar.close()
            del kept
        return found

    @keywords()
    def attention_maps(self, source: Text, target: Text | None = None, *,
                       kind: Literal["encoder", "self", "cross"] | None = None, layer: int | None = None,
                       head: int | None = None, beam_size: int | None = None) -> Attention:
        """The attention weights of translating a text: the model's own translation, or `target`. They render as SVG
        in a notebook. `kind` is the encoder's self-attention, the decoder's self-attention, or cross-attention;
        layers and heads are counted from 1."""
        return attention_maps(self, source, target, kind, layer, head, beam_size)


def _placeholders(keep: bool | Sequence[str]) -> Any:
    """The placeholders to copy: True for the built-in patterns, or a list of additional ones."""
    if isinstance(keep, (str, bytes)):
        raise TypeError("keep is True, False or a list of patterns: put it into a list")
    if not keep and isinstance(keep, bool):
        return NULL
    patterns = [] if isinstance(keep, bool) else [c_text(each) for each in keep]
    out = ffi.new("tfm_placeholders **")
    check(lib.tfm_placeholders_new(out, ffi.new("char const *[]", patterns) if patterns else NULL, len(patterns)))
    return ffi.gc(out[0], lambda pointer: lib.tfm_placeholders_free(ffi.new("tfm_placeholders **", pointer)))


def _without_end(line: Text) -> Text:
    if isinstance(line, bytes):
        return line[:-2] if line.endswith(b"\r\n") else line[:-1] if line.endswith(b"\n") else line
    return line[:-2] if line.endswith("\r\n") else line[:-1] if line.endswith("\n") else line


def _why_bad(text: bytes) -> str | None:
    try:
        check(lib.tfm_text_check(ffi.from_buffer(text), len(text)))
    except InputError as error:
        return str(error)
    return None
