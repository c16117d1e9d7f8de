"""Shared fixtures: the program to compare with, models, one device for all."""
from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest
import tfm
from tfm import _program

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEMO = ROOT / "apps" / "demo"
GOLDEN = ROOT / "tests" / "golden"
Program = Callable[..., bytes]


def few(many: int, some: int) -> int:
    """The number of lines of a test; `some` in tests/run.sh."""
    return some if os.environ.get("TFM_BRIEF") == "1" else many


@pytest.fixture(scope="session")
def program() -> Program:
    """Runs `tfm` and returns its output."""

    def run(*arguments: str | os.PathLike[str], input: bytes = b"", code: int = 0) -> bytes:
        done = subprocess.run([_program.PATH, *(os.fspath(each) for each in arguments)], input=input, capture_output=True)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture(scope="session")
def context() -> Iterator[tfm.Context]:
    """The context of all tests."""
    with tfm.Context() as opened:
        yield opened


@pytest.fixture(scope="session")
def demo(context: tfm.Context) -> Iterator[tfm.Translator]:
    """The demo model."""
    with tfm.Translator(DEMO, device=context) as model:
        yield model


@pytest.fixture(scope="session")
def german() -> list[str]:
    """500 lines: of a real test set in shared/ next to or in the repository, else of the demo, repeated."""
    for folder in (ROOT / "shared", ROOT.parent / "shared"):
        path = folder / "data" / "multi30k" / "test_2016_flickr.de"
        if path.exists():
            return path.read_text(encoding="utf-8").splitlines()[:500]
    lines = (DEMO / "test.de").read_text(encoding="utf-8").splitlines()
    several = [f"{a} {b}" for a, b in zip(lines, lines[1:])]
    return [(lines + several + [""])[i % (len(lines) + len(several) + 1)] for i in range(500)]
