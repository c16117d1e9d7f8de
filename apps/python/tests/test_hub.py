"""Models of the Hugging Face hub, from the tests' server."""
from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
import tfm
from conftest import DEMO, ROOT

COMMIT = "1" * 40


@pytest.fixture
def hub(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The folder of a server with the demo model as acme/demo, and an empty cache."""
    folder = tmp_path / "hub" / "acme" / "demo" / "main"
    folder.mkdir(parents=True)
    for file in DEMO.iterdir():
        if file.suffix in (".json", ".spm", ".safetensors"):
            shutil.copy(file, folder)
    (folder / ".commit").write_text(COMMIT)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    server = subprocess.Popen([sys.executable, ROOT / "tests" / "support" / "hub_server.py", tmp_path / "hub"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin and server.stdout
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:" + server.stdout.readline().split()[0])
    yield tmp_path / "hub"
    server.stdin.close()
    server.wait()


def test_pull_downloads_a_model_that_the_classes_open_by_name(hub: pathlib.Path, context: tfm.Context) -> None:
    with pytest.raises(tfm.FileError, match="tfm pull acme/demo"):
        tfm.Translator("acme/demo", device=context)
    seen: list[tuple[int, int]] = []
    try:
        path = tfm.pull("acme/demo", progress=lambda done, total: seen.append((done, total)))
    except tfm.UnsupportedError:
        pytest.skip("built without libcurl")
    assert path.endswith("models--acme--demo/snapshots/" + COMMIT)
    assert seen[-1][0] == seen[-1][1] > 10_000_000
    assert tfm.read_info("acme/demo").family == "marian"
    with tfm.Translator("acme/demo", device=context) as model:
        assert model.translate("Wo ist mein Auto?") == "Where's my car?"
    assert tfm.Tokenizer("acme/demo@" + COMMIT)
    found = tfm.models()
    assert [(m.name, m.revision, m.commit, m.path) for m in found] == [("acme/demo", "main", COMMIT, path)]
    assert tfm.remove("acme/demo", dry_run=True) >= found[0].bytes - 400_000 and tfm.models() == found
    tfm.remove("acme/demo")
    assert tfm.models() == []


def test_pull_stops_when_progress_returns_false_and_raises_its_errors(hub: pathlib.Path) -> None:
    def fail(done: int, total: int) -> None:
        raise RuntimeError("from progress")

    try:
        with pytest.raises(tfm.CancelledError, match="start it again to resume"):
            tfm.pull("acme/demo", progress=lambda done, total: False)
    except tfm.UnsupportedError:
        pytest.skip("built without libcurl")
    with pytest.raises(RuntimeError, match="from progress"):
        tfm.pull("acme/demo", progress=fail)
    with pytest.raises(tfm.FileError, match="no such revision"):
        tfm.pull("acme/demo", revision="v7", progress=False)
    with pytest.raises(tfm.ArgumentError, match="is not a name"):
        tfm.pull("../demo")
    with pytest.raises(tfm.FileError, match="no such model"):
        tfm.remove("acme/demo@v7")
