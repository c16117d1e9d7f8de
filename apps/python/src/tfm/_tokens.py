"""Translation of tokens, with the interface of ctranslate2.Translator."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._library import NULL, Callbacks, choice, count_of, ffi, lib, put, several
from ._options import CTranslate2Options, keywords
from .errors import ArgumentError, OutOfMemoryError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .text import Tokenizer

_BATCH_TOKENS = 4096


@dataclass
class TranslationResult:
    """The translations of one list of tokens."""

    hypotheses: list[list[str]] = field(default_factory=list)  #: best first
    scores: list[float] = field(default_factory=list)  #: only with return_scores


class TokensMixin:
    """Translation of tokens instead of text."""

    if TYPE_CHECKING:

        @property
        def tokenizer(self) -> Tokenizer | None: ...

        def _run(self, callbacks: Callbacks, function: Callable[[Any], int]) -> None: ...

    @keywords(CTranslate2Options)
    def translate_batch(self, source: Iterable[Sequence[str]],
                        target_prefix: Sequence[Sequence[str] | None] | None = None, *, max_batch_size: int = 0,
                        batch_type: str = "examples", beam_size: int = 2, num_hypotheses: int = 1,
                        length_penalty: float = 1, max_decoding_length: int = 256, max_input_length: int = 1024,
                        return_end_token: bool = False, return_scores: bool = False,
                        **others: Unpack[CTranslate2Options]) -> list[TranslationResult]:
        """Translates lists of pieces, such as ["▁Guten", "▁Morgen", "."], as ctranslate2.Translator.translate_batch
        does; a missing EOS is added. Scores are sums of log p, divided by the number of tokens to the power
        `length_penalty`. Other options of CTranslate2 are refused, except with values that have no effect."""
        for name, value in others.items():
            if value not in _NOTHING[name]:
                raise UnsupportedError(f"translate_batch does not support {name}={value!r}: omit {name}")
        tokenizer = self.tokenizer
        if tokenizer is None:
            raise ArgumentError("translate_batch needs the model's vocabulary: open the model with its tokenizer")
        options = ffi.new("tfm_search_options *")
        put(options, beam_size=count_of(beam_size, "beam_size"), n_best=count_of(num_hypotheses, "num_hypotheses"),
            max_length=count_of(max_decoding_length, "max_decoding_length"), length_penalty=length_penalty)
        options.has_length_penalty = True
        options.length_norm = lib.TFM_LENGTH_NORM_HF
        options.skip_scores = not return_scores
        by_tokens = choice(("examples", "tokens"), batch_type, "batch type") == 1 or not max_batch_size
        source = list(source)
        encoded = [_ids(tokenizer, tokens, "source", max_input_length) for tokens in source]
        prefixes = [_ids(tokenizer, tokens or [], "target", 0) for tokens in (target_prefix or [[]] * len(source))]
        if len(prefixes) != len(encoded):
            raise ValueError(f"there are {len(prefixes)} prefixes for {len(encoded)} sentences: give one for each")
        results = [TranslationResult() for _ in source]
        limit = max_batch_size or _BATCH_TOKENS
        end = tokenizer.special("target_eos")

        def keep(index: int, hypothesis: Any) -> None:
            count = hypothesis.tokens if return_end_token else hypothesis.count
            ids = [hypothesis.ids[i] for i in range(count)]
            result = results[index]
            result.hypotheses.append([tokenizer.piece(i) or ("</s>" if i == end else f"#{i}") for i in ids])
            if return_scores:
                result.scores.append(hypothesis.score)

        for batch in _batches(encoded, limit, by_tokens):
            self._search(batch, encoded, prefixes, options, keep)
        return results

    def _search(self, batch: Sequence[int], encoded: Sequence[list[int]], prefixes: Sequence[list[int]], options: Any,
                keep: Callable[[int, Any], None]) -> None:
        """Translates one batch; splits it if it does not fit into memory."""
        calls = Callbacks()
        options.should_continue = calls.make("bool(*)(void *)", lambda: True)
        ids = ffi.new("int32_t[]", [i for at in batch for i in encoded[at]])
        counts = ffi.new("size_t[]", [len(encoded[at]) for at in batch])
        begun = [i for at in batch for i in prefixes[at]]
        prefix = ffi.new("int32_t[]", begun) if begun else NULL
        prefix_counts = ffi.new("size_t[]", [len(prefixes[at]) for at in batch]) if begun else NULL
        out = ffi.new("tfm_hypotheses *")
        try:
            self._run(calls, lambda model: int(
                lib.tfm_search(model, out, ids, counts, len(batch), prefix, prefix_counts, options)))
            for place, at in enumerate(batch):
                for rank in range(out.n_best):
                    hypothesis = out.items[place * out.n_best + rank]
                    if hypothesis.score != float("-inf"):
                        keep(at, hypothesis)
        except OutOfMemoryError:
            if len(batch) == 1:
                raise
            middle = len(batch) // 2
            self._search(batch[:middle], encoded, prefixes, options, keep)
            self._search(batch[middle:], encoded, prefixes, options, keep)
        finally:
            lib.tfm_hypotheses_free(out)


# Values of CTranslate2's other options that have no effect.
_NOTHING: dict[str, tuple[Any, ...]] = {
    "asynchronous": (False,), "patience": (1,), "coverage_penalty": (0,), "repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,), "disable_unk": (False,), "suppress_sequences": (None,), "end_token": (None,),
    "prefix_bias_beta": (0,), "min_decoding_length": (0, 1), "use_vmap": (False,), "return_attention": (False,),
    "return_logits_vocab": (False,), "return_alternatives": (False,), "min_alternative_expansion_prob": (0,),
    "sampling_topk": (1,), "sampling_topp": (1,), "sampling_temperature": (1,), "replace_unknowns": (False,),
    "callback": (None,),
}


def _ids(tokenizer: Tokenizer, tokens: Iterable[str], side: Any, most: int) -> list[int]:
    """The ids of pieces. The source is truncated and ends with EOS."""
    unknown = tokenizer.special(f"{side}_unk")
    pieces = several(tokens)
    ids = [tokenizer.piece_id(piece, side) for piece in pieces]
    for token, found in zip(pieces, ids):
        if found is None and unknown is None:
            raise ArgumentError(f"the vocabulary has neither the piece {token!r} nor an unknown piece: use its pieces")
    known = [unknown if found is None else found for found in ids]
    numbers = [i for i in known if i is not None]
    if side == "target":
        return numbers
    end = tokenizer.special("source_eos")
    if end is not None and numbers[-1:] == [end]:
        numbers.pop()
    if most:
        numbers = numbers[:most - 1]
    return numbers if end is None else numbers + [end]


def _batches(encoded: Sequence[list[int]], limit: int, by_tokens: bool) -> Iterator[list[int]]:
    """Batches of sentences of similar length, the longest first."""
    order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i]))
    batch: list[int] = []
    for i in order:
        widest = len(encoded[batch[0]]) if batch else 0
        if batch and (len(batch) + 1) * (widest if by_tokens else 1) > limit:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
