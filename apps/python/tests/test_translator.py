"""Translation, scores and attention are byte-identical to the program; and the Python interface."""
from __future__ import annotations

import gc
import json
import math
import pathlib
import threading
import xml.etree.ElementTree
from typing import Any, Literal

import numpy as np
import pytest
import tfm
from conftest import DEMO, Program, few


def _joined(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def test_lines_are_the_programs(demo: tfm.Translator, program: Program, german: list[str]) -> None:
    assert len(german) == 500
    lines = german[:few(500, 80)]
    for split, flags in ((False, []), (True, ["--split"])):
        want = program("translate", "-m", DEMO, "--beam-size", "4", *flags, input=_joined(lines))
        assert _joined([str(t) for t in demo.translate(lines, beam_size=4, split=split)]) == want


def test_scores_and_n_best_are_the_programs(demo: tfm.Translator, program: Program, german: list[str]) -> None:
    lines = german[:few(60, 20)]
    want = program("translate", "-m", DEMO, "--beam-size", "4", "--n-best", "3", input=_joined(lines)).decode()
    found = demo.translate(lines, beam_size=4, n_best=3)
    got = ["".join(f"{i} ||| {t} ||| {t.score:.6f}\n" if not math.isnan(t.score) else f"{i} |||  ||| \n" for t in best)
           for i, best in enumerate(found)]
    assert "".join(got) == want


def test_texts_are_the_same_without_scores(demo: tfm.Translator, german: list[str]) -> None:
    lines = german[:few(60, 20)]
    want, got = demo.translate(lines, beam_size=1), demo.translate(lines, beam_size=1, return_scores=False)
    assert [str(t) for t in got] == [str(t) for t in want]
    assert all(t.score == 0 and t.log_prob == 0 for t in got if t) and any(t.score < 0 for t in want)
    assert demo.translate(lines[0], beam_size=2, return_scores=False).score < 0


def test_workers_give_the_same_results(demo: tfm.Translator, german: list[str]) -> None:
    lines = german[:few(200, 60)]
    want = demo.translate(lines, beam_size=1, batch_tokens=256, return_scores=True)
    both = tfm.Context(workers=2)
    assert len(both.devices) == 2 and both.devices[0] == both.device
    model = tfm.Translator(DEMO, device=both)
    both.close()  # the model keeps its context alive
    for _ in range(2):
        got = model.translate(lines, beam_size=1, batch_tokens=256, return_scores=True)
        # Compared as texts, because the score of a skipped line is NaN.
        assert [(str(t), repr(t.score)) for t in got] == [(str(t), repr(t.score)) for t in want]
    model.close()


def test_lists_of_devices(context: tfm.Context, demo: tfm.Translator, german: list[str], monkeypatch: Any) -> None:
    name = str(context.device.index)
    assert [d.index for d in context.devices] == [context.device.index]
    monkeypatch.setenv("TFM_DEVICE", f"{name}, all")
    with tfm.Translator(DEMO) as model:
        assert model.context.devices[0].index == context.device.index
        assert [str(t) for t in model.translate(german[:5], beam_size=1)] == [str(t) for t in demo.translate(german[:5], beam_size=1)]
    with pytest.raises(tfm.DeviceError, match="no-such-device"):
        tfm.Context(f"{name},no-such-device")
    with pytest.raises(tfm.ArgumentError, match="workers is 0"):
        tfm.Context(name, workers=0)
    with pytest.raises(tfm.ArgumentError, match="17 workers"):
        tfm.Context(name, workers=17)
    with pytest.raises(tfm.ArgumentError, match="one device without workers"):
        tfm.Context(name, workers=2, memory_limit=1 << 30)


def test_scores_of_pairs_are_the_programs(demo: tfm.Translator, program: Program, german: list[str],
                                          tmp_path: pathlib.Path) -> None:
    lines = german[:few(100, 40)]
    targets = [str(t) for t in demo.translate(lines, beam_size=1, split=False)]
    (tmp_path / "de").write_bytes(_joined(lines))
    (tmp_path / "en").write_bytes(_joined(targets))
    want = program("score", "-m", DEMO, "--src", tmp_path / "de", "--tgt", tmp_path / "en").decode()
    got = demo.score(lines, targets)
    assert "".join(f"{s.log_prob:.6f}\t{s.tokens}\t{s.average:.6f}\n" for s in got) == want


def test_tokens_and_alignments_are_the_programs(demo: tfm.Translator, program: Program, german: list[str]) -> None:
    lines = german[:20]
    rows = program("translate", "-m", DEMO, "--json", "--alignments", input=_joined(lines)).decode().splitlines()
    for want, got in zip(map(json.loads, rows), demo.translate(lines, split=False, return_alignments=True)):
        assert (want["index"], want["rank"], want["text"]) == (got.line, got.rank, str(got))
        if got.alignment is None:
            continue
        assert [t["piece"] for t in want["tokens"]] == got.tokens
        assert [t["id"] for t in want["tokens"]] == got.ids.tolist()
        assert np.allclose([t["log_prob"] for t in want["tokens"]], got.log_probs, rtol=1e-6)
        assert want["source"] == got.source_tokens
        assert np.allclose(want["alignment"], got.alignment, rtol=1e-6)
        assert np.allclose(got.alignment.sum(axis=1), 1, atol=1e-5)


def test_attention_is_the_programs(demo: tfm.Translator, program: Program) -> None:
    text = "Ich habe das Auto gestern verkauft."
    want = json.loads(program("attention", "-m", DEMO, text, "--json"))["layers"]
    got = demo.attention_maps(text)
    assert [layer["name"] for layer in want] == [m.name for m in got]
    for layer, m in zip(want, got):
        assert (layer["rows"], layer["columns"]) == (m.rows, m.columns)
        assert np.allclose(layer["weights"], m.weights, rtol=1e-6)
    one = demo.attention_maps(text, "I sold it.", kind="cross", layer=2, head=3)
    assert len(one) == 1 and one[0].weights.shape == (1, len(one[0].rows), len(one[0].columns)) and one[0].heads == [3]
    with pytest.raises(tfm.ArgumentError, match="no attention has both layer 9"):
        demo.attention_maps(text, layer=9)


def test_attention_renders_as_svg(demo: tfm.Translator) -> None:
    maps = demo.attention_maps("Danke.", "<Thanks> & so on.")
    tree = xml.etree.ElementTree.fromstring(maps._repr_svg_())
    squares = tree.findall("{http://www.w3.org/2000/svg}rect")
    assert len(squares) == 1 + sum(m.weights[0].size for m in maps)
    assert xml.etree.ElementTree.fromstring(maps[0]._repr_svg_()) is not None


def test_attention_picture_labels_rows_with_the_token_written(demo: tfm.Translator) -> None:
    kinds: list[Literal["cross"] | None] = ["cross", None]
    for kind in kinds:
        *_, cross = demo.attention_maps("Danke.", "Thanks.", kind=kind)
        assert cross.written == cross.rows[1:] + ["</s>"] and cross.rows[0] == "<pad>"
        labels = [text.text for text in xml.etree.ElementTree.fromstring(cross._repr_svg_()).iter() if text.text]
        assert [label for label in labels if label.startswith("_Th")] and "<pad>" not in labels
        assert labels[1:1 + len(cross.rows)] == [token.replace("▁", "_") for token in cross.written]
    encoder = demo.attention_maps("Danke.", "Thanks.", kind="encoder")[0]
    assert encoder.written == encoder.rows


def test_single_text_and_bytes(demo: tfm.Translator) -> None:
    assert demo.translate("Ich liebe dich.") == "I love you."
    assert demo.translate(["Ich liebe dich.".encode()]) == ["I love you."]
    assert [str(t) for t in demo.translate("Ich liebe dich.", n_best=2, beam_size=4)][0] == "I love you."
    assert demo.translate([]) == []
    empty = demo.translate("")
    assert empty == "" and math.isnan(empty.score)


def test_texts_of_any_kind(demo: tfm.Translator) -> None:
    lines = ["Danke.", "Hallo."]
    want = [str(t) for t in demo.translate(lines)]
    assert demo.translate(line for line in lines) == want
    assert demo.translate(np.array(lines)) == want and demo.translate(np.array(lines, object)) == want
    assert demo.translate(dict.fromkeys(lines)) == want and demo.translate(np.str_("Danke.")) == want[0]
    assert demo.score(iter(lines), np.array(want)) == demo.score(lines, want)
    for wrong in (None, 5, [None], [5], bytearray(b"Danke.")):
        with pytest.raises(TypeError, match="str or bytes"):
            demo.translate(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="put it into a list"):
        demo.score("Danke.", "Thanks.")
    with pytest.raises(TypeError, match="str or bytes"):
        demo.attention_maps(lines)  # type: ignore[arg-type]


def test_sentences_are_split_by_default(demo: tfm.Translator) -> None:
    two = "Guten Morgen. Wo ist Tom?"
    assert tfm.sentences(two, "de") == ["Guten Morgen.", "Wo ist Tom?"]
    assert demo.translate(two).sentences == 2
    assert demo.translate(two, split=False).sentences == 1
    assert demo.translate([two], n_best=2)[0][0].sentences == 1


def test_a_stream_is_the_same_in_any_pieces(demo: tfm.Translator, german: list[str],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfm.translator._AHEAD", 16)
    lines = german[:50]
    want = demo.translate(lines, beam_size=1)
    got = list(demo.stream((line + "\r\n" for line in lines), beam_size=1))
    assert got == want and [t.line for t in got] == list(range(50))
    endless = demo.stream("Hallo." for _ in iter(int, 1))
    assert next(endless) == demo.translate("Hallo.")
    del endless
    assert demo.translate("Danke.")  # the context is unlocked


def test_bad_lines(demo: tfm.Translator) -> None:
    lines: list[str | bytes] = ["Danke.", b"\xff", "a\0b", "Hallo.", "\ud800"]
    with pytest.raises(tfm.InputError, match="UTF-8"):
        demo.translate(lines)
    told: list[tuple[int, str]] = []
    got = demo.translate(lines, reject=lambda line, why: told.append((line, why)))
    assert [line for line, _ in told] == [1, 2, 4] and got[1] == got[2] == got[4] == ""
    assert got[0] and got[3]
    with pytest.raises(tfm.CancelledError):
        demo.translate(lines, reject=lambda line, why: False)
    scores = demo.score(["Danke.", "b"], ["Thanks.", b"\xff"], reject=lambda line, why: None)
    assert scores[0].tokens > 1 and scores[1].tokens == 0 and math.isnan(scores[1].average)
    with pytest.raises(tfm.InputError, match="line 1"):
        demo.score(["a\0b"], ["c"])


def test_translations_have_the_terms_of_the_glossary(demo: tfm.Translator) -> None:
    found = demo.translate(["Das Auto steht vor dem Haus.", "Danke."], glossary={"Auto": "truck", "Haus": "school"})
    assert found == ["The truck is parked in front of the school.", demo.translate("Danke.")]
    assert demo.translate("Danke.", glossary={}) == found[1]
    with pytest.raises(tfm.ArgumentError, match="empty side"):
        demo.translate("Danke.", glossary={"": "a"})


def test_placeholders_are_kept(demo: tfm.Translator) -> None:
    found = demo.translate(["Ich bin in ${city}.", "%s: %d", "Danke."], return_alignments=True)
    assert found[0] == "I'm in ${city}." and found[1] == "%s: %d"
    assert found[0].ids[found[0].tokens.index("▁${city}")] == -1
    assert "${city}" not in demo.translate("Ich bin in ${city}.", keep=False)
    assert demo.translate("Ich bin in ACME.", keep=[r"AC\w+"]) == "I'm in ACME."
    assert demo.translate("Danke.", keep=False) == found[2]
    with pytest.raises(TypeError, match="put it into a list"):
        demo.translate("Danke.", keep="ACME")
    with pytest.raises(tfm.ArgumentError, match="missing closing parenthesis"):
        demo.translate("Danke.", keep=["("])


def test_prefixes_and_search(demo: tfm.Translator) -> None:
    assert demo.translate("Ich liebe dich.", prefixes=["He"], split=False).startswith("He")
    with pytest.raises(ValueError, match="2 prefixes for 1 lines"):
        demo.translate(["a"], prefixes=["b", None])
    with pytest.raises(tfm.ArgumentError, match="beam"):
        demo.translate("Danke.", beam_size=33)
    with pytest.raises(tfm.ArgumentError):
        demo.translate("Danke.", split=True, n_best=2, beam_size=4)
    with pytest.raises(tfm.ArgumentError, match="one of paper, hf"):
        demo.translate("Danke.", length_norm="none")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="put it into a list"):
        demo.translate("Danke.", prefixes="He")
    for name in ("beam_size", "n_best", "max_length", "batch_tokens"):  # 0 is not the default here
        with pytest.raises(tfm.ArgumentError, match=f"{name} is 0"):
            demo.translate("Danke.", **{name: 0})  # type: ignore[call-overload]
    assert demo.translate("Danke.", beam_size=np.int64(2))  # type: ignore[call-overload]


def test_callbacks_may_fail_and_stop(demo: tfm.Translator) -> None:
    def fail(done: int, total: int) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        demo.translate(["Danke."], progress=fail)
    with pytest.raises(tfm.CancelledError):
        demo.translate(["Danke."], progress=lambda done, total: False)
    with pytest.raises(tfm.ArgumentError, match="a callback cannot use the device"):
        demo.translate(["Danke."], progress=lambda done, total: demo.translate("Hallo."))
    told: list[tuple[int, int]] = []
    demo.translate(["Danke."], progress=lambda done, total: told.append((done, total)))
    assert told[0][0] == 0 and told[-1][0] == told[-1][1] > 0


def test_tokens_as_ctranslate2_has_them(demo: tfm.Translator, german: list[str]) -> None:
    tokenizer = demo.tokenizer
    assert tokenizer is not None
    lines = [line for line in german[:few(30, 10)] if line]
    pieces = [[tokenizer.piece(i, "source") or "" for i in tokenizer.encode(line)] for line in lines]
    want = demo.translate(lines, beam_size=4, split=False, length_norm="hf", length_penalty=1, max_length=256, return_scores=True)
    for given in (pieces, [each[:-1] for each in pieces]):  # with EOS, and without
        got = demo.translate_batch(given, beam_size=4, return_scores=True, max_batch_size=7)
        for result, line in zip(got, want):
            assert result.hypotheses == [line.tokens[:-1]]
            assert result.scores == pytest.approx([line.score], rel=1e-4)
    more = demo.translate_batch(pieces[:2], [["▁He"], None], beam_size=3, num_hypotheses=3, return_end_token=True)
    assert len(more[0].hypotheses) == 3 and all(h[0] == "▁He" for h in more[0].hypotheses)
    assert more[1].hypotheses[0][-1] == "</s>" and more[1].scores == []
    assert demo.translate_batch(iter(pieces[:2])) == demo.translate_batch(pieces[:2])
    with pytest.raises(tfm.UnsupportedError, match="return_attention"):
        demo.translate_batch(pieces[:1], return_attention=True)
    with pytest.raises(TypeError, match="put it into a list"):  # otherwise each letter would be a piece
        demo.translate_batch(pieces[0])
    with pytest.raises(tfm.ArgumentError, match="one of examples, tokens"):
        demo.translate_batch(pieces[:1], batch_type="lines")
    with pytest.raises(tfm.ArgumentError, match="beam_size is 0"):
        demo.translate_batch(pieces[:1], beam_size=0)


def test_tokenizer_pieces_and_ids(demo: tfm.Translator) -> None:
    tokenizer = demo.tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("Danke.", side="target", add_special_tokens=False)
    assert tokenizer.decode(ids.astype(np.int64)) == tokenizer.decode(list(map(int, ids))) == tokenizer.decode(ids)
    for wrong in ([1, 2.5], [[1, 2]], [10**12], ["1"]):
        with pytest.raises(tfm.ArgumentError, match="ids"):
            tokenizer.decode(wrong)
    with pytest.raises(tfm.ArgumentError, match="one of source, target"):
        tokenizer.encode("Danke.", side="left")  # type: ignore[call-overload]
    several = tokenizer.encode(["Danke.", "", "Guten Morgen."])
    assert [ids.tolist() for ids in several] == [tokenizer.encode(text).tolist() for text in ("Danke.", "", "Guten Morgen.")]
    assert tokenizer.encode([]) == [] and tokenizer.encode(iter(["Danke."]))[0].tolist() == tokenizer.encode("Danke.").tolist()
    with pytest.raises(ValueError, match="as many as there are texts"):
        tokenizer.encode(["Danke.", "Bitte."], text_pair=["a"])
    with pytest.raises(tfm.ArgumentError, match="one of source_eos"):
        tokenizer.special("end")
    with pytest.raises(tfm.ArgumentError, match="one of 13a"):
        tfm.evaluate(["a"], ["a"], tokenize="zh")  # type: ignore[arg-type]


def test_threads_are_serialized(demo: tfm.Translator, german: list[str]) -> None:
    want = [str(t) for t in demo.translate(german[:8], beam_size=1)]
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = [str(t) for t in demo.translate(german[:8], beam_size=1)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == want for i in range(4))


def test_other_threads_run_while_the_device_works(demo: tfm.Translator, german: list[str]) -> None:
    """The GIL is released: this thread counts while another translates."""
    counted = 0
    thread = threading.Thread(target=lambda: demo.translate(german[:60], beam_size=4))
    thread.start()
    while thread.is_alive():
        counted += 1
        thread.join(0.001)
    assert counted > 10


def test_objects_close_in_any_order() -> None:
    context = tfm.Context()
    first, second = tfm.Translator(DEMO, device=context), tfm.Translator(DEMO, device=context)
    tokenizer = first.tokenizer
    assert tokenizer is not None
    context.close()
    assert context.closed and first.translate("Danke.") == second.translate("Danke.")
    first.close()
    first.close()
    for use in (lambda: first.translate("Danke."), lambda: tokenizer.encode("Danke."), lambda: first.info):
        with pytest.raises(tfm.ArgumentError, match="this Translator is closed"):
            use()
    with pytest.raises(tfm.ArgumentError, match="the context is closed"):
        tfm.Translator(DEMO, device=context)
    del context, first
    gc.collect()
    assert second.translate("Danke.")
    second.close()


def test_errors_name_the_cause() -> None:
    with pytest.raises(tfm.FileError, match="nowhere"):
        tfm.Translator("nowhere")
    with pytest.raises(OSError):
        tfm.Translator("nowhere")
    with pytest.raises(tfm.DeviceError, match="zx81"):
        tfm.Translator(DEMO, device="zx81")
    with pytest.raises(tfm.Error, match="precision"):
        tfm.Translator(DEMO, precision="fp4")
    with pytest.raises(tfm.Error, match="activation_precision fp4 is not known"):
        tfm.Translator(DEMO, activation_precision="fp4")
    with pytest.raises(tfm.Error, match="auto or fp32"):
        tfm.Translator(DEMO, activation_precision="bf16")
    assert tfm.Translator(DEMO, activation_precision="fp32").translate("Danke.")
    assert tfm.Translator(DEMO, precision="fp32").translate("Danke.")
    with pytest.raises(TypeError, match="a name, an index or one of devices"):
        tfm.Translator(DEMO, device=2.5)  # type: ignore[arg-type]


def test_devices_have_several_names() -> None:
    chosen = next(device for device in tfm.devices() if device.chosen)
    for name in (chosen, chosen.index, np.int32(chosen.index), str(chosen.index)):
        with tfm.Context(name) as context:  # type: ignore[arg-type]
            assert context.device.index == chosen.index


def test_devices_are_the_programs(program: Program) -> None:
    want = json.loads(program("devices", "--json"))
    got = tfm.devices()
    for name in want[0]:
        # PoCL's memory is a part of the host's free memory, which changes.
        if hasattr(got[0], name) and name not in ("memory_bytes", "max_alloc_bytes"):
            assert [row[name] for row in want] == [getattr(device, name) for device in got], name
    assert {"index", "name", "memory_bytes", "type", "chosen"} <= set(want[0])


def test_model_info(demo: tfm.Translator) -> None:
    info = tfm.read_info(DEMO)
    config = json.loads((DEMO / "config.json").read_text(encoding="utf-8"))
    assert info.family == "marian"
    assert (info.width, info.encoder_layers, info.decoder_layers) == tuple(
        config[key] for key in ("d_model", "encoder_layers", "decoder_layers")
    )
    assert demo.info.parameters == info.parameters
    assert demo.tokenizer is not None and demo.tokenizer.language() == "de"


def test_bleu_and_chrf() -> None:
    assert tfm.evaluate(["the cat sat on the mat"], ["the cat sat on the mat"]).bleu == pytest.approx(100)
    with pytest.raises(ValueError, match="1 translations and 2 references"):
        tfm.evaluate(["a"], ["a", "b"])
