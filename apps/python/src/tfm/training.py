"""Training: whole runs, as `tfm train` makes them."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _program
from ._options import TrainOptions, keywords
from ._stream import Progress, bar_of_tqdm
from .errors import ArgumentError, Error
from .model import Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Is called with each report of a run. False ends it in good order.
Callback = Callable[[dict[str, Any]], Any]
_SEVERAL = ("src", "tgt", "tsv", "text")  # options that may be given several times
_LOOK = 0.1  # seconds between looks at a run's log


@keywords(TrainOptions)
def train(out: Path | None = None, *, src: Path | Sequence[Path] | None = None,
          tgt: Path | Sequence[Path] | None = None, tsv: Path | Sequence[Path] | None = None,
          init_from: Path | None = None, resume: Path | None = None, callbacks: Iterable[Callback] = (),
          progress: Progress = False, **options: Unpack[TrainOptions]) -> dict[str, Any]:
    """Trains a model on pairs of lines and returns the last report of the run.

        tfm.train("law", init_from="opus-mt-de-en", src="law.de", tgt="law.en", max_steps=2000, freeze="model.encoder.*")
        tfm.Translator("law").translate("Die Klage wird abgewiesen.")

    It is a run of `tfm train`, with the same files in the folder `out`, and can be gone on with by either. It has a
    process of its own, which goes on where this one is killed. `src` and `tgt` are files of lines, or `tsv` is one of
    both; lists of files are read one after the other, the first of `src` with the first of `tgt`. `init_from` is a model to
    begin with (`--init-from`), and `resume` the folder of a run to go on with. Every other option of `tfm train --help` has
    its name with "_" for "-", such as `valid_src`, `batch_tokens=2048` or `pre_norm=True`, and `text` takes a list, too;
    several devices, such as `device="gpu,gpu"`, share each update.

    Each of the `callbacks` is called with every report as `train.jsonl` has it: {"type": "train", "update": 50,
    "loss": ...}, {"type": "valid", "bleu": ...} and so on. One that returns False, and Ctrl-C, end the run in good
    order, so that `resume` goes on with it. `progress=True` shows a bar of tqdm's."""
    if (out is None) == (resume is None):
        raise ArgumentError("give the folder of a new run, or resume=, the folder of one to go on with")
    named = {"out": out, "src": src, "tgt": tgt, "tsv": tsv, "init_from": init_from, "resume": resume, **options}
    folder = os.fspath(out if out is not None else resume)  # type: ignore[arg-type]
    run = _Run(os.path.join(folder, "train.jsonl"), callbacks, progress, named.get("max_steps"))
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([_program.PATH, "train", *_arguments(named)], stdin=subprocess.DEVNULL,
                                   stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        run.follow(process)
        said.seek(0)
        sentences = re.findall(r"^tfm(?: train)?: (.*)$", said.read().decode("utf-8", "replace"), re.M)
    if run.error is not None:
        raise run.error
    if process.returncode != 0:
        sentence = sentences[-1] if sentences else f"the run ended with the exit code {process.returncode}"
        raise (ArgumentError if process.returncode == 2 else Error)(sentence)
    return run.last


def _arguments(options: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        several = not isinstance(value, (str, bytes)) and not hasattr(value, "__fspath__") and isinstance(value, Iterable)
        if several and name not in _SEVERAL:
            raise ArgumentError(f"{name} takes one value, and was given {value!r}")
        for one in value if several else [value]:
            arguments += [flag] if one is True else [flag, os.fspath(one) if hasattr(one, "__fspath__") else str(one)]
    return arguments


class _Run:
    """A run that is watched by its log."""

    def __init__(self, log: str, callbacks: Iterable[Callback], progress: Progress, updates: Any) -> None:
        self.last: dict[str, Any] = {}
        self.error: BaseException | None = None
        self._log, self._callbacks = log, list(callbacks)
        self._progress, self._updates = progress, updates
        self._bar: Any = None
        self._before = self._read()  # of an earlier start; it is cut where that start's checkpoint was
        self._told = 0
        self._stopped = self._asked = False

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        """Until the process ends: tells every report, and stops the run when asked."""
        while True:
            try:
                ended = _wait(process)
                self._tell()
                if ended:
                    break
            except BaseException as error:  # Ctrl-C, or a callback's
                self.error = self.error or error
            if self.error is not None or self._stopped:
                self._stop(process)
        if self._bar is not None:
            self._bar.close()

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """Asks once, as Ctrl-C does: the run saves itself and ends."""
        if not self._asked:
            self._asked = True
            process.send_signal(signal.SIGINT)

    def _read(self) -> list[bytes]:
        try:
            with open(self._log, "rb") as file:
                return file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []

    def _tell(self) -> None:
        if self.error is not None:
            return
        now = self._read()
        same = 0
        while same < min(len(now), len(self._before)) and now[same] == self._before[same]:
            same += 1
        fresh = [line for line in now[same:] if line.endswith(b"\n")]
        for line in fresh[self._told:]:
            self._told += 1
            self.last = json.loads(line)
            self._show(self.last)
            for callback in self._callbacks:
                if callback(self.last) is False:
                    self._stopped = True

    def _show(self, report: dict[str, Any]) -> None:
        if callable(self._progress):
            self._progress(int(report.get("update", 0)), int(self._updates or 0))
        elif self._progress and "update" in report:
            if self._bar is None:
                self._bar = bar_of_tqdm(desc="training", unit=" updates", total=self._updates)
                if self._bar is None:
                    self._progress = False
                    return
            self._bar.update(report["update"] - self._bar.n)
            self._bar.set_postfix({name: report[name] for name in ("loss", "ppl", "bleu") if name in report})


def _wait(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended within a look's time."""
    try:
        process.wait(_LOOK)
        return True
    except subprocess.TimeoutExpired:
        return False
