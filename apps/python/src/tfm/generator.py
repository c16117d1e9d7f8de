"""Text generation."""
from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, overload

import numpy as np
import numpy.typing as npt

from ._library import NULL, Callbacks, Lines, Text, c_text, check, count_of, ffi, lib, put, several, to_bytes, to_str
from ._options import GenerateOptions, Schema, keywords
from ._stream import Bar, Progress, stream as stream_of
from .chat_template import ChatTemplate, Message
from .errors import ArgumentError
from .model import Model, Path, Reject
from .ops._tensor import Tensor, tensor
from .text import Score, floats_array, ids_array, ids_given

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FINISH_REASONS = ("eos", "stop", "length")
#: A text, or an array of ids.
Prompt = Union[str, bytes, "npt.NDArray[np.integer[Any]]"]
_ONE = (str, bytes, np.ndarray)


class Generation(str):
    """A generated text, without the prompt."""

    prompt: int  #: the index of the prompt
    rank: int  #: its rank, or its index among the samples
    score: float  #: the ranking score; 0 with return_scores=False
    log_prob: float  #: the sum of log p of its tokens
    finish_reason: str  #: "eos", "stop" or "length"
    prompt_tokens: int  #: the number of prompt tokens
    tokens: list[str]  #: its pieces
    ids: npt.NDArray[np.int32]  #: their ids
    log_probs: npt.NDArray[np.float32]  #: log p of each


def _generation(g: Any) -> Generation:
    made = Generation(to_str(g.text))
    made.prompt, made.rank, made.score, made.log_prob = g.prompt, g.rank, g.score, g.log_prob
    made.finish_reason, made.prompt_tokens = _FINISH_REASONS[g.finish_reason], g.prompt_tokens
    count = g.tokens.count
    made.tokens = [to_str(g.tokens.tokens[i]) for i in range(count)] if g.tokens.tokens != NULL else []
    made.ids = ids_array(g.tokens.ids, count)
    made.log_probs = floats_array(g.log_probs, count)
    return made


def _fill(struct: Any, prompt: Prompt) -> Any:
    """Fills the struct of a prompt; the caller keeps a reference to the result during the call."""
    if isinstance(prompt, np.ndarray):
        ids = ids_given(prompt)
        struct.count = ids.size
        struct.ids = kept = ffi.cast("int32_t *", ffi.from_buffer(ids)) if ids.size else ffi.new("int32_t[1]")
        return ids, kept
    text = to_bytes(prompt)
    struct.bytes = len(text)
    struct.text = kept = ffi.from_buffer(text)
    return kept


def _grammar(schema: Schema | None, grammar: str | None) -> Any:
    """A compiled grammar, freed with the result; NULL for none."""
    if schema is None and grammar is None:
        return NULL
    if schema is not None and grammar is not None:
        raise ValueError("json_schema and grammar are two grammars: give one")
    out = ffi.new("tfm_grammar **")
    if grammar is not None:
        check(lib.tfm_grammar_from_gbnf(out, c_text(grammar)))
    else:
        check(lib.tfm_grammar_from_json_schema(out, c_text(schema if isinstance(schema, str) else json.dumps(schema))))
    return ffi.gc(out[0], lambda made: lib.tfm_grammar_free(ffi.new("tfm_grammar **", made)))


class GenerationStream(Iterator[str]):
    """The parts of a text as they are generated. Closing or dropping it stops the call."""

    def __init__(self, model: Generator, prompt: Prompt, options: GenerateOptions) -> None:
        self._result: Generation | None = None
        self._ended = False  # generation runs ahead of the parts that were taken
        self._pieces: Iterator[str] = stream_of(lambda emit: model._generate([prompt], self._keep, emit, **options))

    def _keep(self, generation: Generation) -> None:
        self._result = generation

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration:
            self._ended = True
            raise

    @property
    def result(self) -> Generation | None:
        """The whole text with its scores and ids once iteration has ended; None before."""
        return self._result if self._ended else None

    @property
    def finish_reason(self) -> str | None:
        """Why the text ended: "eos", "stop" or "length", once iteration has ended; None before."""
        return None if self.result is None else self.result.finish_reason

    def close(self) -> None:
        """Stops the call if it is running."""
        self._pieces.close()  # type: ignore[attr-defined]


class Generator(Model):
    """A text generation model: the directory of a decoder-only model such as GPT-2 or Llama.

        for part in tfm.Generator("gpt2").generate("Once upon a time", stream=True):
            print(part, end="", flush=True)
    """

    _kind = "decoder"

    _path: Path
    _chat_template: ChatTemplate | None = None

    def _open(self, path: Path, precision: str | None, tokenizer: bool) -> None:
        self._path = path
        super()._open(path, precision, tokenizer)

    def _generate(self, prompts: Sequence[Prompt], emit: Any, on_text: Any = None, *, n_best: int | None = None,
                  max_new_tokens: int | None = None, min_new_tokens: int | None = None,
                  beam_size: int | None = None, length_penalty: float | None = None, sample: bool = False,
                  temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                  min_p: float | None = None, repetition_penalty: float | None = None,
                  presence_penalty: float = 0, frequency_penalty: float = 0,
                  logit_bias: Mapping[int, float] | None = None, json_schema: Schema | None = None,
                  grammar: str | None = None, prompt_lookup_num_tokens: int = 0, seed: int = 0,
                  return_scores: bool = True, stop_strings: Sequence[str] = (),
                  stop_token_ids: Sequence[int] = (), batch_tokens: int | None = None,
                  reject: Reject | None = None) -> None:
        if not prompts:
            return
        calls = Callbacks()
        options = ffi.new("tfm_generate_options *")
        given = ffi.new("tfm_prompt[]", len(prompts))
        kept = [_fill(given[i], each) for i, each in enumerate(prompts)]
        if temperature == 0:  # greedy, regardless of the other options
            sample, temperature, top_k, top_p, min_p = False, None, None, None, None
        options.sample = bool(sample or temperature or top_k or top_p or min_p)
        put(options, max_new_tokens=count_of(max_new_tokens, "max_new_tokens"), min_new_tokens=min_new_tokens or 0,
            beam_size=count_of(beam_size, "beam_size"), n_best=count_of(n_best, "n_best"),
            length_penalty=length_penalty or 0, temperature=temperature or 0, top_k=top_k or 0, top_p=top_p or 0,
            min_p=min_p or 0, repetition_penalty=repetition_penalty or 0, seed=seed,
            batch_tokens=count_of(batch_tokens, "batch_tokens"))
        options.has_length_penalty, options.skip_scores = length_penalty is not None, not return_scores
        options.prompt_lookup_num_tokens = prompt_lookup_num_tokens
        options.presence_penalty, options.frequency_penalty = presence_penalty, frequency_penalty
        biases = ffi.new("tfm_logit_bias[]", [(id, bias) for id, bias in (logit_bias or {}).items()])
        options.logit_bias, options.logit_bias_count = biases, len(biases)
        options.grammar = rules = _grammar(json_schema, grammar)
        stops = [c_text(each) for each in several(stop_strings)]
        options.stop_strings = stop_texts = ffi.new("char const *[]", stops)
        options.stop_string_count = len(stops)
        if len(stop_token_ids):
            ends = {operator.index(each) for each in stop_token_ids}
            options.on_token = calls.make("tfm_token_fn", lambda prompt, rank, id: id not in ends)
        options.should_continue = calls.make("bool(*)(void *)", lambda: True)  # lets Python handle Ctrl-C
        if on_text is not None:
            options.on_text = calls.make("tfm_text_fn", lambda prompt, rank, text: on_text(to_str(text)))
        if reject is not None:
            options.reject = calls.make("tfm_reject_fn", lambda line, why: reject(line, to_str(why)))

        def on_generation(g: Any) -> Any:
            if g.rank > 0 and g.score == float("-inf"):  # no more hypotheses
                return True
            return emit(_generation(g))

        on = calls.make("tfm_generation_fn", on_generation)
        self._run(calls, lambda model: int(lib.tfm_generate(model, given, len(prompts), options, on, NULL)))
        del kept, stop_texts, biases, rules

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True],
                 **options: Unpack[GenerateOptions]) -> GenerationStream: ...

    @overload
    def generate(self, prompt: Prompt, *,  # type: ignore[overload-overlap]
                 stream: Literal[False] = False, n_best: None = None,
                 **options: Unpack[GenerateOptions]) -> Generation: ...

    @overload
    def generate(self, prompt: Prompt, *,  # type: ignore[overload-overlap]
                 stream: Literal[False] = False, n_best: int,
                 **options: Unpack[GenerateOptions]) -> list[Generation]: ...

    @overload
    def generate(self, prompt: Iterable[Prompt], *, stream: Literal[False] = False, n_best: None = None,
                 **options: Unpack[GenerateOptions]) -> list[Generation]: ...

    @overload
    def generate(self, prompt: Iterable[Prompt], *, stream: Literal[False] = False, n_best: int,
                 **options: Unpack[GenerateOptions]) -> list[list[Generation]]: ...

    @keywords(_generate)
    def generate(self, prompt: Prompt | Iterable[Prompt], *, stream: bool = False, n_best: int | None = None,
                 **options: Unpack[GenerateOptions]) -> Any:
        """Generates text for a prompt (a text or an array of ids), or for each of several. With `stream`, which takes
        one prompt, the parts of its text are yielded as they are generated; `stream.finish_reason` is set at the end.
        `n_best` returns a list of texts for each prompt. Other options:

        max_new_tokens        the maximum number of tokens to generate (default: the model's own, else 256)
        min_new_tokens        the minimum number of tokens to generate (default: the model's own, else 0)
        stop_strings          a text ends before the first stop string
        stop_token_ids        a text ends with the first stop token
        beam_size             the beam size of a beam search (default 1)
        length_penalty        the exponent of the length penalty of a beam search (default: the model's own, else 1)
        sample                samples tokens; implied by each of the next four options
        temperature           divides the logits; 0 is greedy
        top_k, top_p, min_p   filters of the tokens to sample from
        repetition_penalty    makes tokens of prompt and text less likely, if above 1
        presence_penalty      subtracted from the logits of tokens that the text has (default 0)
        frequency_penalty     subtracted for each occurrence in the text (default 0)
        logit_bias            what is added to the logits of tokens, by id; -inf suppresses one
        json_schema           the text is JSON that is valid for this schema, as a dict or as text
        grammar               the text is one of this grammar, in GBNF
        prompt_lookup_num_tokens
                              speculative decoding: tokens proposed where the text repeats itself (0 to 15, default 0)
        seed                  the seed of sampling (default 0)
        return_scores         False skips scores: they are 0 without sampling and with a beam size of 1, and decoding
                              may be faster on CPUs
        batch_tokens          the maximum number of tokens in a batch (default 16384)
        reject                called with the index of a bad prompt and the reason; otherwise it raises InputError
        """
        if stream:
            if not isinstance(prompt, _ONE):
                raise ValueError("stream takes one prompt: give a text, or several prompts without stream")
            return GenerationStream(self, prompt, options)
        single = isinstance(prompt, _ONE)
        prompts: list[Prompt] = [prompt] if isinstance(prompt, _ONE) else list(prompt)
        if any(isinstance(each, (int, np.integer)) for each in prompts):
            raise TypeError("a prompt of ids is an array: give numpy.array(ids)")
        found: list[list[Generation]] = [[] for _ in prompts]
        self._generate(prompts, lambda g: found[g.prompt].append(g), n_best=n_best, **options)
        best: list[Any] = list(found) if n_best is not None else [each[0] for each in found]
        return best[0] if single else best

    @property
    def chat_template(self) -> ChatTemplate:
        """The chat templates of the model's directory."""
        if self._chat_template is None:
            self._chat_template = ChatTemplate(self._path)
        return self._chat_template

    @overload
    def chat(self, messages: Iterable[Message], *, stream: Literal[True], tools: Iterable[Message] | None = None,
             documents: Iterable[Message] | None = None, variables: Mapping[str, Any] | None = None,
             continue_final_message: bool = False, **options: Unpack[GenerateOptions]) -> GenerationStream: ...

    @overload
    def chat(self, messages: Iterable[Message], *, stream: Literal[False] = False,
             tools: Iterable[Message] | None = None, documents: Iterable[Message] | None = None,
             variables: Mapping[str, Any] | None = None, continue_final_message: bool = False, n_best: None = None,
             **options: Unpack[GenerateOptions]) -> Generation: ...

    @overload
    def chat(self, messages: Iterable[Message], *, n_best: int, stream: Literal[False] = False,
             tools: Iterable[Message] | None = None, documents: Iterable[Message] | None = None,
             variables: Mapping[str, Any] | None = None, continue_final_message: bool = False,
             **options: Unpack[GenerateOptions]) -> list[Generation]: ...

    @keywords(_generate)
    def chat(self, messages: Iterable[Message], *, stream: bool = False, tools: Iterable[Message] | None = None,
             documents: Iterable[Message] | None = None, variables: Mapping[str, Any] | None = None,
             continue_final_message: bool = False, n_best: int | None = None,
             **options: Unpack[GenerateOptions]) -> Any:
        """Answers messages such as [{"role": "user", "content": "Hello"}]: renders them with the model's chat template,
        as `ChatTemplate.render` does, and generates until the end of the turn. Other options are those of
        `generate`. A content is a string or a list of parts, {"type": "text", "text": "..."}; for a template that reads
        strings, parts become lines. Other types of parts raise UnsupportedError.

        tools                   functions, as OpenAI's, for a template that describes them
        documents               documents, for a template that quotes them
        variables               further variables of the template, such as {"enable_thinking": False}
        continue_final_message  continues the last message instead of answering it
        """
        tokenizer = self.tokenizer
        if tokenizer is None:
            raise ArgumentError("chat needs the model's tokenizer: open the model with it")
        text = self.chat_template.render(self.chat_template._with_contents(messages), tools=tools, documents=documents, variables=variables,
                                         continue_final_message=continue_final_message)
        prompt = tokenizer.encode(text, add_special_tokens=False)
        ends = [each for each in self.chat_template.end_tokens(tokenizer) if each != self.info.eos_id]
        options["stop_token_ids"] = [*options.get("stop_token_ids", ()), *ends]
        if stream:
            return GenerationStream(self, prompt, options)
        found: list[Generation] = []
        self._generate([prompt], found.append, n_best=n_best, **options)
        return found if n_best is not None else found[0]

    @keywords()
    def score(self, texts: Iterable[Text], *, score_eos: bool = False, add_bos: bool = False,
              batch_tokens: int | None = None, reject: Reject | None = None, progress: Progress = False) -> list[Score]:
        """Scores texts: the sum of log p of the tokens, each given those before it, as in `tfm score --text`;
        exp(-score.average) is the perplexity. `score_eos` adds the EOS token. `add_bos` puts the model's BOS token
        first if the tokenizer does not, so that the first token counts. A text without a scored token, and a bad one
        with `reject`, has NaN and 0 tokens."""
        lines = Lines(several(texts))
        if not lines.count:
            return []
        calls, bar, found = Callbacks(), Bar(progress, "scoring"), list[Score]()
        options = ffi.new("tfm_text_options *")
        options.line_bytes, options.score_eos = lines.bytes, score_eos
        put(options, batch_tokens=count_of(batch_tokens, "batch_tokens"))
        options.add_bos = add_bos
        options.progress = calls.make("tfm_progress_fn", bar)
        if reject is not None:
            options.reject = calls.make("tfm_reject_fn", lambda line, why: reject(line, to_str(why)))

        def on_score(_line: int, log_prob: float, tokens: int) -> None:
            found.append(Score(log_prob, tokens))

        on = calls.make("tfm_score_fn", on_score)
        try:
            self._run(calls, lambda model: int(lib.tfm_score_texts(model, lines.text, lines.count, options, on, NULL)))
        finally:
            bar.close()
        return found

    def logits(self, prompt: Prompt) -> npt.NDArray[np.float32]:
        """The logits (tokens, vocabulary) of a text or an array of ids; row i predicts the token after token i."""
        if isinstance(prompt, np.ndarray):
            ids = ids_given(prompt)
        elif (tokenizer := self.tokenizer) is None:
            raise ArgumentError("logits needs the model's tokenizer for a text: give an array of ids")
        else:
            ids = tokenizer.encode(prompt)
        vocabulary = self.info.target_vocab_size
        if not ids.size or int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
            raise ArgumentError(f"logits takes a prompt of at least one token, with ids from 0 to {vocabulary - 1}")
        given, out, nothing = tensor(ids[None], "I32", context=self.context), ffi.new("tfm_tensor *"), \
            ffi.new("tfm_tensor *")
        self._run(Callbacks(), lambda model: int(
            lib.tfm_model_decode(model, out, given._struct[0], nothing[0], nothing[0])))
        return np.asarray(Tensor(self.context, out).numpy()[0], np.float32)
