"""Keyword arguments: the declared ones are accepted, and others are refused with a list of the valid ones."""
from __future__ import annotations

import inspect
import pickle
import re
from typing import Any

import pytest
import tfm
from conftest import DEMO, GOLDEN, Program
from tfm import _options, _tokens


def _keywords(function: Any) -> set[str]:
    return {each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize("declared, taken", [
    (_options.TranslateOptions, tfm.Translator._translate), (_options.GenerateOptions, tfm.Generator._generate)])
def test_declared_options_are_those_taken(declared: type, taken: Any) -> None:
    assert set(declared.__annotations__) == _keywords(taken) - {"n_best"}


def test_neutral_options_of_ctranslate2_are_declared() -> None:
    assert set(_options.CTranslate2Options.__annotations__) == set(_tokens._NOTHING)


def test_options_of_train_are_the_programs(program: Program) -> None:
    known = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", program("help", "train").decode(), re.M)) - {"help"}
    named = {"out", "src", "tgt", "tsv", "init-from", "resume"}
    assert {name.replace("_", "-") for name in _options.TrainOptions.__annotations__} == known - named


@pytest.mark.parametrize("function, name", [
    (tfm.Translator.translate, "return_alignments"), (tfm.Translator.stream, "beam_size"), (tfm.Generator.generate, "top_k"),
    (tfm.Translator.translate_batch, "patience"), (tfm.train, "eval_steps")])
def test_signatures_name_every_option(function: Any, name: str) -> None:
    assert name in _keywords(function)
    assert not any(each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values())


def test_an_unknown_keyword_lists_the_valid_ones(demo: tfm.Translator) -> None:
    with pytest.raises(TypeError, match=r"translate\(\) got .* 'beem_size': did you mean 'beam_size'\? It takes .*keep"):
        demo.translate("Danke.", beem_size=2)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="did you mean 'max_length'"):
        demo.stream(["Danke."], max_lenght=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'zzz': It takes .*batch_tokens"):
        demo.score(["a"], ["b"], zzz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'beam_size'"):
        demo.translate_batch([["a"]], beam_sizes=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Translator\(\) got .*did you mean 'precision'"):
        tfm.Translator(DEMO, precison="fp32")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'pooling'"):
        tfm.Embedder(DEMO, poolin="mean")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'top_k'"):
        tfm.Generator.generate(None, "w10", topk=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="did you mean 'causal'"):
        tfm.ops.attention([1.0], [1.0], [1.0], casual=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'workers'"):
        tfm.Context(worker=2)  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(tfm.ops.attention)) is tfm.ops.attention
    with pytest.raises(TypeError, match="did you mean 'lowercase'"):
        tfm.evaluate(["a"], ["b"], lower_case=True)  # type: ignore[call-arg]


def _old_names() -> list[tuple[Any, str, str]]:
    """Each renamed keyword, with the calls that take the new one."""
    calls: tuple[Any, ...] = (
        tfm.train, tfm.Translator.translate, tfm.Generator.generate, tfm.Generator.score, tfm.Encoder.classify, tfm.Reranker.rank,
        tfm.Encoder.fill_mask, tfm.Tokenizer.encode, tfm.ops.adam, tfm.ops.attention, tfm.ops.cross_entropy,
        tfm.ops.ssru)
    taken = {call: set(inspect.signature(call).parameters) for call in calls}
    found = []
    for old, names in _options._RENAMED.items():
        for call in calls:
            found += [(call, old, new) for new in names if new.split("=")[0] in taken[call]][:1]
    return found


@pytest.mark.parametrize("call, old, new", _old_names())
def test_an_old_keyword_names_the_new_one(call: Any, old: str, new: str) -> None:
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{old}': use {new} instead\. It takes"):
        call(None, "w10", **{old: 1})


def test_every_renamed_keyword_has_a_call_that_takes_the_new_name() -> None:
    assert {old for _, old, _ in _old_names()} == set(_options._RENAMED)


def test_encode_still_takes_special(demo: tfm.Translator) -> None:
    tokenizer = demo.tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("Danke.", add_special_tokens=False)
    assert (tokenizer.encode("Danke.", special=False) == ids).all()  # type: ignore[call-overload]
    assert len(tokenizer.encode("Danke.", special=True)) > len(ids)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="'special': did you mean|'special': It takes"):
        tokenizer.encode("Danke.", special=True, add_special_tokens=True)  # type: ignore[call-overload]


def test_string_length_penalty_suggests_length_norm(demo: tfm.Translator) -> None:
    with pytest.raises(TypeError, match="^length_penalty is a number, the exponent: use length_norm='hf'"):
        demo.translate("Danke.", length_penalty="hf")  # type: ignore[call-overload]


@pytest.mark.parametrize("value", ["4", 4.0, [4]])
def test_a_count_that_is_no_whole_number_is_named(demo: tfm.Translator, value: Any) -> None:
    with pytest.raises(TypeError, match="^beam_size is .*: give a whole number"):
        demo.translate("Danke.", beam_size=value)


@pytest.mark.parametrize("name, value, limit", [
    ("beam_size", 10**30, "most 2147483647"), ("max_length", 1 << 31, "most 2147483647"),
    ("batch_tokens", 1 << 64, "most 2147483647"), ("alignment_layer", -1 << 40, "least -2147483648")])
def test_an_integer_out_of_range_is_named(demo: tfm.Translator, name: str, value: int, limit: str) -> None:
    with pytest.raises(tfm.ArgumentError, match=f"^{name} is {value}: give at {limit}, or omit it$"):
        demo.translate("Danke.", **{name: value})  # type: ignore[call-overload]


def test_a_negative_seed_is_named(demo: tfm.Translator) -> None:
    with pytest.raises(tfm.ArgumentError, match="^seed is -1: give at least 0, or omit it$"):
        tfm.Generator._generate(demo, ["w10"], None, seed=-1)  # type: ignore[arg-type]


def test_an_option_that_is_no_number_is_named(demo: tfm.Translator) -> None:
    with pytest.raises(TypeError, match="^alignment_head is '1': give a number, or omit it$"):
        demo.translate("Danke.", alignment_head="1")  # type: ignore[call-overload]


def test_a_folder_for_embeddings_is_refused_by_its_kind() -> None:
    for opens in (tfm.Translator, tfm.Generator):
        with pytest.raises(tfm.ArgumentError, match="sentence-transformers folder; open it with tfm.Embedder"):
            opens(GOLDEN / "embedder")
