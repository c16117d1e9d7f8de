"""Keyword arguments: typed for editors and type checkers, checked at run time."""
from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Union

from ._library import Text
from ._stream import Progress

if TYPE_CHECKING:
    from .model import Path, Reject

LengthNorm = Literal["paper", "hf"]
#: A JSON schema, or its text.
Schema = Union[str, Mapping[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])


class TranslateOptions(TypedDict, total=False):
    """Options of `Translator.translate` and `Translator.stream`, except `n_best`."""

    beam_size: Union[int, None]
    length_penalty: Union[float, None]
    length_norm: LengthNorm
    max_length: Union[int, None]
    return_scores: Union[bool, None]
    return_alignments: bool
    alignment_layer: int
    alignment_head: int
    split: Union[bool, None]
    language: Union[str, None]
    source_language: Union[str, None]
    target_language: Union[str, None]
    source_prefix: Union[str, None]
    prefixes: Union[Sequence[Union[Text, None]], None]
    truncate: bool
    batch_tokens: Union[int, None]
    keep: Union[bool, Sequence[str]]
    glossary: Union[Mapping[str, str], None]
    reject: Union[Reject, None]
    progress: Progress


class GenerateOptions(TypedDict, total=False):
    """Options of `Generator.generate`, except `n_best` and `stream`."""

    max_new_tokens: Union[int, None]
    min_new_tokens: Union[int, None]
    beam_size: Union[int, None]
    length_penalty: Union[float, None]
    sample: bool
    temperature: Union[float, None]
    top_k: Union[int, None]
    top_p: Union[float, None]
    min_p: Union[float, None]
    repetition_penalty: Union[float, None]
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Union[Mapping[int, float], None]
    json_schema: Union[Schema, None]
    grammar: Union[str, None]
    prompt_lookup_num_tokens: int
    seed: int
    return_scores: bool
    stop_strings: Sequence[str]
    stop_token_ids: Sequence[int]
    batch_tokens: Union[int, None]
    reject: Union[Reject, None]


class TrainOptions(TypedDict, total=False):
    """Options of `tfm train`, with "_" for "-", that `train` does not name. None and False omit one."""

    device: Union[str, None]
    workers: Union[int, None]
    shard_optimizer: bool
    gradient_checkpointing: bool
    valid_src: Union[Path, None]
    valid_tgt: Union[Path, None]
    valid_tsv: Union[Path, None]
    text: Union[Path, Sequence[Path], None]
    separator: Union[str, None]
    jsonl: bool
    valid_text: Union[Path, None]
    chat: Union[Path, Sequence[Path], None]
    valid_chat: Union[Path, None]
    hold_out: Union[int, None]
    strict: bool
    seq_len: Union[int, None]
    max_length: Union[int, None]
    buffer_size: Union[int, None]
    source_lang: Union[str, None]
    target_lang: Union[str, None]
    freeze: Union[str, None]
    vocab: Union[Path, None]
    vocab_size: Union[int, None]
    vocab_lines: Union[int, None]
    separate_vocab: bool
    unigram: bool
    subword_alpha: Union[float, None]
    character_coverage: Union[float, None]
    normalization: Union[str, None]
    family: Union[Literal["gpt", "llama"], None]
    preset: Union[Literal["tiny", "small", "base", "big"], None]
    width: Union[int, None]
    heads: Union[int, None]
    kv_heads: Union[int, None]
    ffn_dim: Union[int, None]
    encoder_layers: Union[int, None]
    decoder_layers: Union[int, None]
    max_positions: Union[int, None]
    activation: Union[Literal["relu", "gelu", "gelu-tanh", "silu"], None]
    init: Union[Literal["xavier", "gaussian", "kaiming"], None]
    pre_norm: bool
    max_steps: Union[int, None]
    epochs: Union[int, None]
    batch_tokens: Union[int, None]
    gradient_accumulation_steps: Union[int, None]
    precision: Union[str, None]
    comm_dtype: Union[Literal["f32", "f16", "bf16"], None]
    balance: Union[str, None]
    lr_scheduler_type: Union[Literal["inverse-sqrt", "linear", "cosine", "constant"], None]
    warmup_steps: Union[int, None]
    learning_rate: Union[float, None]
    beta1: Union[float, None]
    beta2: Union[float, None]
    epsilon: Union[float, None]
    weight_decay: Union[float, None]
    max_grad_norm: Union[float, None]
    label_smoothing: Union[float, None]
    dropout: Union[float, None]
    attention_dropout: Union[float, None]
    activation_dropout: Union[float, None]
    seed: Union[int, None]
    logging_steps: Union[int, None]
    eval_steps: Union[int, None]
    patience: Union[int, None]
    average: Union[int, None]
    keep_average: bool
    valid_beam_size: Union[int, None]
    valid_tokenize: Union[Literal["13a", "none", "char"], None]
    valid_lowercase: bool
    best_metric: Union[Literal["bleu", "ppl"], None]
    save_dtype: Union[Literal["f32", "f16", "bf16"], None]


class CTranslate2Options(TypedDict, total=False):
    """Options of CTranslate2's `translate_batch`, accepted only with values that have no effect."""

    asynchronous: bool
    patience: float
    coverage_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    disable_unk: bool
    suppress_sequences: None
    end_token: None
    prefix_bias_beta: float
    min_decoding_length: int
    use_vmap: bool
    return_attention: bool
    return_logits_vocab: bool
    return_alternatives: bool
    min_alternative_expansion_prob: float
    sampling_topk: int
    sampling_topp: float
    sampling_temperature: float
    replace_unknowns: bool
    callback: None


# Earlier names, and names of transformers and the OpenAI API, with the replacements: a call suggests the first it has.
_RENAMED: dict[str, tuple[str, ...]] = {
    "accumulate": ("gradient_accumulation_steps",), "alpha": ("length_penalty",), "beam": ("beam_size",),
    "before": ("initial",), "best_by": ("best_metric",), "block": ("seq_len",), "buffer": ("buffer_size",),
    "clip": ("max_grad_norm",), "coverage": ("character_coverage",), "deal": ("balance",), "decay": ("weight_decay",),
    "do_sample": ("sample",), "ends": ("score_eos",), "ffn": ("ffn_dim",), "lr": ("learning_rate",),
    "max_new": ("max_new_tokens",), "max_tokens": ("max_new_tokens",), "min_new": ("min_new_tokens",),
    "norm": ("grad_norm",), "num_beams": ("beam_size",), "num_return_sequences": ("n_best",), "pair": ("text_pair",),
    "pairs": ("text_pairs",), "positions": ("max_positions",), "rate": ("learning_rate", "dropout"),
    "recompute": ("gradient_checkpointing",), "report_every": ("logging_steps",), "schedule": ("lr_scheduler_type",),
    "shard": ("shard_optimizer",), "smoothing": ("label_smoothing",),
    "start": ("init_from",), "stop": ("stop_strings",), "stops": ("stop_strings",), "store": ("save_dtype",),
    "top": ("top_k",), "unscored": ("return_scores=False",), "updates": ("max_steps",), "valid_beam": ("valid_beam_size",),
    "valid_every": ("eval_steps",), "warmup": ("warmup_steps",), "wire": ("comm_dtype",),
}


def _unknown(function: str, name: str, known: Sequence[str]) -> TypeError:
    new = next((each for each in _RENAMED.get(name, ()) if each.split("=")[0] in known), None)
    near = difflib.get_close_matches(name, known, 1)
    hint = f"use {new} instead. " if new else f"did you mean {near[0]!r}? " if near else ""
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}: {hint}It takes {', '.join(known)}")


def _parameters(source: Callable[..., Any] | type) -> list[inspect.Parameter]:
    """The keyword-only parameters of a function, or the keys of a TypedDict."""
    if isinstance(source, type):
        keys: Mapping[str, Any] = source.__annotations__
        return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for name, kind in keys.items()]
    return [each for each in inspect.signature(source).parameters.values() if each.kind is each.KEYWORD_ONLY]


def keywords(passed_on: Callable[..., Any] | type | None = None, **aliases: str) -> Callable[[F], F]:
    """Decorates a public function: an unknown keyword argument raises a TypeError that lists the valid ones.
    `**options` go to the function `passed_on`, or are the keys of that TypedDict; the signature lists them. `aliases`
    are earlier names that calls may still use, each with its present name."""

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        named = {each.name for each in parameters}
        parameters += [each for each in _parameters(passed_on) if each.name not in named] if passed_on else []
        known = [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        known = [name for name in known if name != "self"]

        @wraps(function)
        def checked(*given: Any, **options: Any) -> Any:
            options = {aliases.get(name, name) if aliases.get(name) not in options else name: value
                       for name, value in options.items()}
            for name in options:
                if name not in known:
                    made = function.__name__ == "__init__" and given  # as the caller writes it
                    raise _unknown(type(given[0]).__name__ if made else function.__qualname__, name, known)
            return function(*given, **options)

        checked.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate
