"""Short training runs: reports, callbacks, stop and resume, errors."""
from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import tfm
from conftest import DEMO

NUMBERS = ["eins", "zwei", "drei", "vier", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
ENGLISH = ["one", "two", "three", "four", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("texts")
    pairs = [(f"{a} und {b}", f"{c} and {d}") for a, c in zip(NUMBERS, ENGLISH) for b, d in zip(NUMBERS, ENGLISH)]
    for name, side in (("de", 0), ("en", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return {"src": folder / "de", "tgt": folder / "en"}


def test_fine_tuning_reports_stops_and_resumes(texts: dict[str, Any], tmp_path: pathlib.Path) -> None:
    out = tmp_path / "run"
    reports: list[dict[str, Any]] = []

    def stop(report: dict[str, Any]) -> bool:
        reports.append(report)
        return bool(report["type"] != "train" or report["update"] < 2)

    tfm.train(out, init_from=DEMO, **texts, max_steps=400, logging_steps=1, eval_steps=200, hold_out=0, batch_tokens=256,
              warmup_steps=1, dropout=0, callbacks=[stop])
    assert reports[0]["type"] == "start" and [r["update"] for r in reports if r["type"] == "train"][:2] == [1, 2]
    last = reports[-1]["update"]
    assert 2 <= last < 400
    again: list[dict[str, Any]] = []
    end = tfm.train(resume=out, max_steps=last + 3, callbacks=[again.append])
    assert [r["update"] for r in again if r["type"] == "train"] == [last + 1, last + 2, last + 3]
    assert end["type"] == "end" and end["reason"] == "updates"
    logged = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    assert reports + again == logged
    assert tfm.Translator(out).translate("Danke.")


def test_several_files_equal_one_file(texts: dict[str, Any], tmp_path: pathlib.Path) -> None:
    parts: dict[str, Any] = {"src": [], "tgt": []}
    for side, whole in texts.items():
        lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
        for number, some in enumerate((lines[:50], lines[50:])):
            parts[side].append(tmp_path / f"{side}{number}")
            parts[side][-1].write_text("".join(some), encoding="utf-8")
    losses = []
    for name, files in (("one", texts), ("several", parts)):
        reports: list[dict[str, Any]] = []
        tfm.train(tmp_path / name, init_from=DEMO, **files, max_steps=2, logging_steps=1, hold_out=0, batch_tokens=256,
                  warmup_steps=1, dropout=0, callbacks=[reports.append])
        losses.append([report["loss"] for report in reports if report["type"] == "train"])
    assert len(losses[0]) == 2 and losses[0] == losses[1]
    assert len(json.loads((tmp_path / "several" / "recipe.json").read_text())["src"]) == 2


def test_callbacks_that_fail_end_the_run(texts: dict[str, Any], tmp_path: pathlib.Path) -> None:
    def fail(report: dict[str, Any]) -> None:
        if report["type"] == "train":
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        tfm.train(tmp_path / "run", init_from=DEMO, **texts, max_steps=400, hold_out=0, batch_tokens=256, callbacks=[fail])
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_errors_name_the_cause(texts: dict[str, Any], tmp_path: pathlib.Path) -> None:
    with pytest.raises(tfm.ArgumentError, match="resume="):
        tfm.train(**texts)
    with pytest.raises(tfm.ArgumentError, match="has no --tgt: give --tgt FILE"):
        tfm.train(tmp_path / "run", src=texts["src"])
    with pytest.raises(tfm.ArgumentError, match="--src has 2 files and --tgt has 1"):
        tfm.train(tmp_path / "run", src=[texts["src"]] * 2, tgt=texts["tgt"])
    with pytest.raises(tfm.ArgumentError, match="valid_src takes one value"):
        tfm.train(tmp_path / "run", **texts, valid_src=["a", "b"], valid_tgt="c")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'lern_rate'"):
        tfm.train(tmp_path / "run", **texts, lern_rate=3)  # type: ignore[call-arg]
    with pytest.raises(tfm.Error, match="nowhere"):
        tfm.train(tmp_path / "run", src="nowhere", tgt=texts["tgt"])
