"""Text generation by a small random GPT-2 has the same results as the program."""
from __future__ import annotations

import json
import pathlib
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tfm
from conftest import DEMO, GOLDEN, Program

WORDS, WIDTH, LAYERS, POSITIONS = 50, 24, 2, 40


def _make(folder: pathlib.Path) -> None:
    """A model of random parameters, and a tokenizer of fifty words."""
    rng = np.random.default_rng(11)
    tensors = {"wte.weight": rng.normal(0, 1, (WORDS, WIDTH)), "wpe.weight": rng.normal(0, 1, (POSITIONS, WIDTH)),
               "ln_f.weight": np.ones(WIDTH), "ln_f.bias": np.zeros(WIDTH)}
    for layer in range(LAYERS):
        for name, shape in (("attn.c_attn", (WIDTH, 3 * WIDTH)), ("attn.c_proj", (WIDTH, WIDTH)),
                            ("mlp.c_fc", (WIDTH, 4 * WIDTH)), ("mlp.c_proj", (4 * WIDTH, WIDTH))):
            tensors[f"h.{layer}.{name}.weight"] = rng.normal(0, 0.4, shape)
            tensors[f"h.{layer}.{name}.bias"] = rng.normal(0, 0.1, shape[1])
        for name in ("ln_1", "ln_2"):
            tensors[f"h.{layer}.{name}.weight"], tensors[f"h.{layer}.{name}.bias"] = np.ones(WIDTH), np.zeros(WIDTH)
    header, body = {}, b""
    for name, array in tensors.items():
        data = np.asarray(array, np.float32).tobytes()
        header["transformer." + name] = {"dtype": "F32", "shape": list(np.shape(array)),
                                         "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 3,
        "n_positions": POSITIONS, "vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2}))
    names = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(3, WORDS)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(3)],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {name: i for i, name in enumerate(names)}, "unk_token": "<unk>"}}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("gpt2")
    _make(made)
    return made


@pytest.fixture(scope="module")
def model(folder: pathlib.Path, context: tfm.Context) -> Iterator[tfm.Generator]:
    with tfm.Generator(folder, device=context) as opened:
        yield opened


PROMPTS = ["w10 w11 w12", "w5", "w20 w21 w22 w23"]


def test_texts_are_the_programs(model: tfm.Generator, folder: pathlib.Path, program: Program) -> None:
    for flags, options in (([], {}), (["--beam-size", "3"], {"beam_size": 3}), (["--temperature", "0.8", "--seed", "7"],
                                                                      {"temperature": 0.8, "seed": 7})):
        rows = program("generate", "-m", folder, "--json", "--max-new-tokens", "12", *flags, *PROMPTS).decode().splitlines()
        for want, got in zip(map(json.loads, rows), model.generate(PROMPTS, max_new_tokens=12, **options)):
            assert (want["index"], want["text"], want["end"].replace("end", "eos")) == (got.prompt, str(got), got.finish_reason)
            assert [token["id"] for token in want["tokens"]] == got.ids.tolist()
            assert np.allclose([token["log_prob"] for token in want["tokens"]], got.log_probs, rtol=1e-6)


def test_texts_are_the_same_without_scores(model: tfm.Generator) -> None:
    want, got = model.generate(PROMPTS, max_new_tokens=12), model.generate(PROMPTS, max_new_tokens=12, return_scores=False)
    assert [str(g) for g in got] == [str(g) for g in want]
    assert all(g.score == 0 and g.log_prob == 0 and not g.log_probs.any() for g in got)
    assert all(g.score < 0 for g in want)
    assert model.generate(PROMPTS[0], max_new_tokens=12, sample=True, return_scores=False).score < 0


def test_stream_parts_make_up_the_text(model: tfm.Generator) -> None:
    want = model.generate(PROMPTS[0], max_new_tokens=12)
    pieces = list(model.generate(PROMPTS[0], max_new_tokens=12, stream=True))
    assert len(pieces) > 3 and "".join(pieces) == want
    some = model.generate(PROMPTS[0], max_new_tokens=30, stream=True)
    assert next(some) == pieces[0]
    del some
    assert model.generate(PROMPTS[0], max_new_tokens=12) == want
    with pytest.raises(ValueError, match="one prompt"):
        model.generate(PROMPTS, stream=True)  # type: ignore[call-overload]


def test_stop_strings_and_several(model: tfm.Generator) -> None:
    want = model.generate(PROMPTS[0], max_new_tokens=12)
    word = want.split()[3]
    stopped = model.generate(PROMPTS[0], max_new_tokens=12, stop_strings=[word])
    assert stopped.finish_reason == "stop" and want.startswith(stopped) and word not in stopped
    samples = model.generate(PROMPTS[0], max_new_tokens=5, n_best=3, sample=True, seed=4)
    assert len(samples) == 3 and [g.rank for g in samples] == [0, 1, 2]
    assert samples == model.generate(PROMPTS[0], max_new_tokens=5, n_best=3, sample=True, seed=4)
    assert model.generate(PROMPTS[0], temperature=0, top_k=5, max_new_tokens=12) == want
    assert model.generate([]) == []


def test_prompt_lookup_gives_the_same_text(model: tfm.Generator) -> None:
    for temperature in (0.0, 0.7):
        plain = model.generate("w10 w11 w10 w11", max_new_tokens=24, temperature=temperature, seed=3)
        drafted = model.generate("w10 w11 w10 w11", max_new_tokens=24, temperature=temperature, seed=3,
                                 prompt_lookup_num_tokens=3)
        assert list(drafted.ids) == list(plain.ids)
    with pytest.raises(tfm.ArgumentError, match="prompt_lookup_num_tokens"):
        model.generate("w10", prompt_lookup_num_tokens=16)


def test_penalties_and_biases(model: tfm.Generator) -> None:
    plain = model.generate("w10", max_new_tokens=12)
    penalized = model.generate("w10", max_new_tokens=12, presence_penalty=3, frequency_penalty=1)
    assert len(set(penalized.ids)) > len(set(plain.ids))
    first = int(plain.ids[0])
    assert first not in model.generate("w10", max_new_tokens=12, logit_bias={first: -np.inf}).ids
    assert set(model.generate("w10", max_new_tokens=5, logit_bias={17: 1000.0}).ids) == {17}
    with pytest.raises(tfm.ArgumentError, match="logit_bias 1"):
        model.generate("w10", logit_bias={WORDS: 1.0})


def test_texts_follow_a_grammar(model: tfm.Generator) -> None:
    rules = 'root ::= " w7"? (" w20 w21" | " w10")+ " w9"'
    texts = model.generate(["w10", "w11 w12"], max_new_tokens=30, sample=True, n_best=3, grammar=rules)
    for text in [each for several in texts for each in several]:
        assert re.fullmatch("(w7 )?(w20 w21 |w10 )+w9( </s>)?", text.strip()), text
    parts = list(model.generate("w10", max_new_tokens=30, grammar=rules, stream=True))
    assert "".join(parts) == model.generate("w10", max_new_tokens=30, grammar=rules)
    for schema in ({"enum": [1]}, '{"enum": [1]}'):  # no token of the vocabulary begins a number
        assert model.generate("w10", json_schema=schema) == ""
    with pytest.raises(tfm.FormatError, match="line 1, column"):
        model.generate("w10", grammar="root")
    with pytest.raises(tfm.UnsupportedError, match="`if`"):
        model.generate("w10", json_schema={"if": True})
    with pytest.raises(ValueError, match="give one"):
        model.generate("w10", json_schema={}, grammar=rules)


def test_ids_without_a_tokenizer(model: tfm.Generator, folder: pathlib.Path, context: tfm.Context) -> None:
    want = model.generate(PROMPTS[0], max_new_tokens=12)
    with tfm.Generator(folder, device=context, tokenizer=False) as bare:
        assert bare.tokenizer is None
        got = bare.generate(np.array([10, 11, 12]), max_new_tokens=12)
        assert got.ids.tolist() == want.ids.tolist() and got == ""
        with pytest.raises(tfm.Error):
            bare.generate("w10")


def test_kv_cache_in_int8_and_a_context_size(model: tfm.Generator, folder: pathlib.Path, context: tfm.Context) -> None:
    want = model.generate(PROMPTS[0], max_new_tokens=3)
    with tfm.Generator(folder, device=context, kv_precision="int8", ctx_size=5) as small:
        assert small.info.max_positions == 5
        got = small.generate(PROMPTS[0], max_new_tokens=12)
        assert len(got.ids) == 3 and got.finish_reason == "length"
        assert got.log_prob != want.log_prob and abs(got.log_probs[0] - want.log_probs[0]) < 0.05
        with pytest.raises(tfm.Error, match="has 6 tokens, and the context has 5"):
            small.generate(" ".join(6 * ["w10"]))
    for options, words in (({"kv_precision": "int3"}, "kv_precision int3 is not known: give one of"),
                           ({"ctx_size": POSITIONS + 1}, "give at most as many"), ({"ctx_size": -1}, "give 1 or more")):
        with pytest.raises(tfm.ArgumentError, match=words):
            tfm.Generator(folder, device=context, **options)
    with pytest.raises(tfm.ArgumentError, match="not decoder-only"):
        tfm.Translator(DEMO, device=context, ctx_size=9)


def test_adapters_change_the_weights(folder: pathlib.Path, context: tfm.Context, tmp_path: pathlib.Path) -> None:
    lora, changed = tmp_path / "lora", tmp_path / "changed"
    make = GOLDEN.parent / "apps" / "make_adapter.py"
    subprocess.run([sys.executable, make, folder, "proj|c_attn|c_fc", lora, changed], check=True)

    def first(path: pathlib.Path, adapters: Any = None) -> Any:
        with tfm.Generator(path, device=context, adapters=adapters) as model:
            return model.logits(PROMPTS[0])

    want = first(changed)
    np.testing.assert_allclose(first(folder, lora), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(first(folder, [str(lora)]), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(first(folder, [(lora, 0.25), (lora, 0.75)]), want, rtol=1e-4, atol=1e-4)
    assert np.abs(first(folder, (lora, 0.5)) - want).max() > 1e-3 and np.abs(first(folder) - want).max() > 1e-3
    with pytest.raises(tfm.ArgumentError, match="is 0: omit the adapter"):
        first(folder, (lora, 0))
    with pytest.raises(tfm.Error, match="adapter_config.json"):
        first(folder, tmp_path)


def test_prompts_of_any_kind(model: tfm.Generator) -> None:
    want = [str(text) for text in model.generate(PROMPTS, max_new_tokens=4)]
    assert model.generate((prompt for prompt in PROMPTS), max_new_tokens=4) == want
    assert model.generate(np.array([10, 11, 12], np.uint8), max_new_tokens=4) == want[0]
    with pytest.raises(TypeError, match="numpy.array"):
        model.generate([10, 11, 12])  # type: ignore[list-item]
    for wrong in (np.array([1.5]), np.array([[1, 2]]), np.array([2**40])):
        with pytest.raises(tfm.ArgumentError, match="ids"):
            model.generate(wrong)
    with pytest.raises(TypeError, match="put it into a list"):
        model.generate("w10", stop_strings="w11")
    with pytest.raises(tfm.ArgumentError, match="max_new_tokens is 0"):
        model.generate("w10", max_new_tokens=0)


def test_bad_prompts(model: tfm.Generator) -> None:
    with pytest.raises(tfm.InputError):
        model.generate(["w10", "w11 " * 50])
    told: list[int] = []
    got = model.generate(["w10", "w11 " * 50], max_new_tokens=3, reject=lambda line, why: told.append(line))
    assert told == [1] and got[0] and got[1] == ""
    with pytest.raises(tfm.ArgumentError):
        model.generate("w10", beam_size=3, sample=True)


def test_stream_has_a_finish_reason(model: tfm.Generator) -> None:
    want = model.generate(PROMPTS[0], max_new_tokens=12)
    pieces = model.generate(PROMPTS[0], max_new_tokens=12, stream=True)
    assert next(pieces)
    time.sleep(0.5)  # all is generated, and parts are left
    assert pieces.finish_reason is None and pieces.result is None
    rest = list(pieces)
    assert rest and pieces.finish_reason == want.finish_reason == "length"
    assert pieces.result == want and pieces.result.ids.tolist() == want.ids.tolist()
    stopped = model.generate(PROMPTS[0], max_new_tokens=12, stream=True, stop_strings=[want.split()[3]])
    assert "".join(stopped) == stopped.result and stopped.finish_reason == "stop"
    some = model.generate(PROMPTS[0], max_new_tokens=30, stream=True)
    assert next(some)
    some.close()
    assert list(some) == [] and some.finish_reason in (None, "stop")


def test_scores_are_the_programs(model: tfm.Generator, folder: pathlib.Path, program: Program,
                                 tmp_path: pathlib.Path) -> None:
    (tmp_path / "texts").write_text("".join(prompt + "\n" for prompt in PROMPTS))
    rows = [line.split("\t") for line in program("score", "-m", folder, "--text", tmp_path / "texts").decode().splitlines()]
    for row, score in zip(rows, model.score(PROMPTS), strict=True):
        if row == [""]:  # a single token without a context
            assert np.isnan(score.log_prob) and score.tokens == 0
            continue
        assert score.tokens == int(row[1])
        assert np.allclose([score.log_prob, score.average], [float(row[0]), float(row[2])], atol=1e-4)
    assert [len(row) for row in rows] == [3, 1, 3]
    assert [score.tokens for score in model.score(PROMPTS, add_bos=True)] == [3, 1, 4]
    assert model.score([]) == [] and model.score(PROMPTS, score_eos=True)[0].tokens == model.score(PROMPTS)[0].tokens + 1
    told: list[int] = []
    bad = model.score([b"w10 \xff", "w11 w12"], reject=lambda line, why: told.append(line))
    assert told == [0] and np.isnan(bad[0].log_prob) and bad[1] == model.score(["w11 w12"])[0]
    with pytest.raises(TypeError, match="put it into a list"):
        model.score("w10")


def test_logits_give_the_log_probs_of_a_text(model: tfm.Generator) -> None:
    ids = np.array([10, 11, 12, 13])
    logits = model.logits(ids)
    assert logits.shape == (4, WORDS) and logits.dtype == np.float32
    assert np.array_equal(logits, model.logits("w10 w11 w12 w13"))
    text = model.generate(ids, max_new_tokens=3)
    after = model.logits(np.concatenate([ids, text.ids]))[3:6]
    log_probs = after - np.log(np.exp(after).sum(axis=1, keepdims=True))
    assert np.allclose(log_probs[range(3), text.ids], text.log_probs, atol=1e-5)
    assert model.generate(ids, max_new_tokens=1).ids[0] == logits[-1].argmax()
    for wrong in (np.array([], np.int32), np.array([WORDS]), np.array([-1])):
        with pytest.raises(tfm.ArgumentError, match=f"ids from 0 to {WORDS - 1}"):
            model.logits(wrong)


def test_a_class_for_other_models_is_refused_before_loading(folder: pathlib.Path, context: tfm.Context,
                                                            tmp_path: pathlib.Path) -> None:
    with pytest.raises(tfm.ArgumentError, match=r"decoder-only model \(gpt2\); open it with tfm.Generator"):
        tfm.Translator(folder, device=context)
    with pytest.raises(tfm.ArgumentError, match=r"encoder-decoder \(marian\); open it with tfm.Translator"):
        tfm.Generator(DEMO, device=context)
    with pytest.raises(tfm.ArgumentError, match="tfm.Embedder or tfm.Encoder"):
        tfm.Translator(GOLDEN / "masked", device=context)
    with pytest.raises(tfm.ArgumentError, match="tfm.Generator"):
        tfm.Encoder(folder, device=context)
    with pytest.raises(tfm.FileError):
        tfm.Translator(tmp_path / "nothing", device=context)


TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ m.content }} {% endfor %}{{ tools[0].name if tools }}"
            "{% if add_generation_prompt %} {{ end | default('w9') }}{% endif %}")
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "w10 w11"}, {"role": "assistant", "content": "w12", "name": None}]


@pytest.fixture(scope="module")
def chatty(folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, context: tfm.Context) -> Iterator[tfm.Generator]:
    made = tmp_path_factory.mktemp("chat")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        (made / name).write_bytes((folder / name).read_bytes())
    (made / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}))
    with tfm.Generator(made, device=context) as opened:
        yield opened


def test_chat_answers_the_rendered_messages(chatty: tfm.Generator) -> None:
    assert chatty.chat_template.render(MESSAGES) == "<s>w10 w11 w12  w9"
    want = chatty.generate(np.array([1, 10, 11, 12, 9]), max_new_tokens=6)  # one BOS, a special token
    got = chatty.chat(MESSAGES, max_new_tokens=6)
    assert (got, got.ids.tolist(), got.prompt_tokens) == (want, want.ids.tolist(), 5)
    assert "".join(chatty.chat(MESSAGES, max_new_tokens=6, stream=True)) == want
    assert [str(each) for each in chatty.chat(MESSAGES, max_new_tokens=6, n_best=1)] == [want]


def test_chat_passes_tools_and_variables_to_the_template(chatty: tfm.Generator) -> None:
    want = chatty.generate(np.array([1, 10, 11, 12, 13, 14]), max_new_tokens=6)
    assert chatty.chat(MESSAGES, tools=[{"name": "w13"}], variables={"end": "w14"}, max_new_tokens=6) == want
    assert chatty.chat_template.render(MESSAGES, continue_final_message=True) == "<s>w10 w11 w12"


def content(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def words(*texts: str) -> list[dict[str, Any]]:
    return content(*({"type": "text", "text": text} for text in texts))


def test_chat_joins_parts_for_a_template_that_reads_strings(chatty: tfm.Generator) -> None:
    want = chatty.chat([{"role": "user", "content": "w10\nw11"}], max_new_tokens=6)
    got = chatty.chat(words("w10", "w11"), max_new_tokens=6)
    assert (got, got.prompt_tokens) == (want, 4)  # as they are, the template would render {"type": ...
    assert chatty.chat(words("w10 w11"), max_new_tokens=6) == chatty.chat([{"role": "user", "content": "w10 w11"}], max_new_tokens=6)


def test_chat_passes_parts_to_a_template_that_reads_lists(folder: pathlib.Path, tmp_path: pathlib.Path, context: tfm.Context) -> None:
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    (tmp_path / "chat_template.jinja").write_text(
        "{{ bos_token }}{% for m in messages %}{% for part in m.content %}{{ part.text }} w13 {% endfor %}{% endfor %}")
    with tfm.Generator(tmp_path, device=context) as lists:
        want = lists.generate(np.array([1, 10, 13, 11, 13]), max_new_tokens=6)
        assert lists.chat(words("w10", "w11"), max_new_tokens=6) == want
        one = lists.generate(np.array([1, 10, 13]), max_new_tokens=6)
        assert lists.chat([{"role": "user", "content": "w10"}], max_new_tokens=6) == one


@pytest.mark.parametrize("part, error, words", [
    ({"type": "image_url", "image_url": {"url": "x"}}, tfm.UnsupportedError, r"messages\[0\].content\[1\] is of type 'image_url'"),
    ({"type": "input_audio", "input_audio": {}}, tfm.UnsupportedError, "is of type 'input_audio'"),
    ({"type": "text"}, tfm.InputError, r"messages\[0\].content\[1\] is not"),
    ({"text": "w10"}, tfm.InputError, "is not"),
    ("w10", tfm.InputError, "is not"),
])
def test_chat_refuses_other_parts_by_name(chatty: tfm.Generator, part: Any, error: type[tfm.Error], words: str) -> None:
    with pytest.raises(error, match=words):
        chatty.chat(content({"type": "text", "text": "w11"}, part))


def test_chat_ends_with_the_turn(chatty: tfm.Generator) -> None:
    whole = chatty.chat(MESSAGES, max_new_tokens=6)
    first = int(whole.ids[0])
    ended = chatty.chat(MESSAGES, max_new_tokens=6, stop_token_ids=[first])
    assert ended.ids.tolist() == [first] and ended.finish_reason == "stop"
    assert chatty.tokenizer is not None and chatty.chat_template.end_tokens(chatty.tokenizer) == [2]


def test_conversations_are_encoded_for_training(chatty: tfm.Generator) -> None:
    assert chatty.tokenizer is not None
    ids, learned = chatty.chat_template.encode_example(chatty.tokenizer, {"prompt": "w10 w11", "completion": " w12"})
    assert chatty.tokenizer.encode("w10 w11 w12").tolist() == [10, 11, 12]
    assert ids == [10, 11, 12, 2] and learned == [False, False, True, True]
    with pytest.raises(tfm.InputError, match="messages"):
        chatty.chat_template.encode_example(chatty.tokenizer, {"text": "w10"})


def test_chat_without_a_template_is_refused(model: tfm.Generator) -> None:
    assert model.chat_template.source() is None
    with pytest.raises(tfm.UnsupportedError, match="no chat template"):
        model.chat(MESSAGES)


def test_a_template_that_refuses_is_named(folder: pathlib.Path) -> None:
    (folder / "chat_template.jinja").write_text("\n{{ raise_exception('no ' + messages[0].role) }}")
    with pytest.raises(tfm.InputError, match="line 2 of the chat template: it refuses the messages: no user"):
        tfm.ChatTemplate(folder).render(MESSAGES)
