"""Training runs of `tfm train`."""
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

#: Called with each report of a run. False stops it after a checkpoint.
Callback = Callable[[dict[str, Any]], Any]
_SEVERAL = ("src", "tgt", "tsv", "text", "chat")  # options that take lists
_POLL_SECONDS = 0.1  # seconds between reads of a run's log


@keywords(TrainOptions)
def train(out: Path | None = None, *, src: Path | Sequence[Path] | None = None,
          tgt: Path | Sequence[Path] | None = None, tsv: Path | Sequence[Path] | None = None,
          init_from: Path | None = None, resume: Path | None = None, callbacks: Iterable[Callback] = (),
          progress: Progress = False, **options: Unpack[TrainOptions]) -> dict[str, Any]:
    """Trains a model in a run of `tfm train` and returns the last report of the run.

        tfm.train("law", init_from="opus-mt-de-en", src="law.de", tgt="law.en", max_steps=2000)
        tfm.Translator("law").translate("Die Klage wird abgewiesen.")

    The folder `out` has the same files as a run of `tfm train`, and either can resume it. The run is a separate
    process, and continues if this one is killed. `src` and `tgt` are files of parallel lines, or `tsv` has both;
    lists of files are read one after another, src[i] with tgt[i]. `init_from` is a model to fine-tune
    (`--init-from`), and `resume` the folder of a run to resume. Every other option of `tfm train --help` has its name
    with "_" for "-", such as `valid_src`, `batch_tokens=2048` or `pre_norm=True`, and `text` and `chat` take lists, too;
    several devices, such as `device="gpu,gpu"`, share each update (data parallel).

    Each of the `callbacks` is called with every report of `train.jsonl`: {"type": "train", "update": 50, "loss":
    ...}, {"type": "valid", "bleu": ...} and so on. A callback that returns False, and Ctrl-C, stop the run after a
    checkpoint, to be resumed with `resume`. `progress=True` shows a tqdm bar."""
    if (out is None) == (resume is None):
        raise ArgumentError("train takes either out or resume=: give the folder of a new run, or of the run to resume")
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
        sentence = sentences[-1] if sentences else f"tfm train failed without a message: exit code {process.returncode}"
        raise (ArgumentError if process.returncode == 2 else Error)(sentence)
    return run.last


def _arguments(options: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        several = not isinstance(value, (str, bytes)) and not hasattr(value, "__fspath__") and \
            isinstance(value, Iterable)
        if several and name not in _SEVERAL:
            raise ArgumentError(f"{name} takes one value, not {value!r}")
        for one in value if several else [value]:
            arguments += [flag] if one is True else [flag, os.fspath(one) if hasattr(one, "__fspath__") else str(one)]
    return arguments


class _Run:
    """Follows a run by its log file."""

    def __init__(self, log: str, callbacks: Iterable[Callback], progress: Progress, updates: Any) -> None:
        self.last: dict[str, Any] = {}
        self.error: BaseException | None = None
        self._log, self._callbacks = log, list(callbacks)
        self._progress, self._updates = progress, updates
        self._bar: Any = None
        self._before = self._read()  # lines of an earlier start; the run truncates them at its checkpoint
        self._told = 0
        self._stopped = self._asked = False

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        """Reports until the process ends, and stops the run on request."""
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
        """Sends SIGINT once, as Ctrl-C: the run saves a checkpoint and ends."""
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
    """Whether the process ends within one polling interval."""
    try:
        process.wait(_POLL_SECONDS)
        return True
    except subprocess.TimeoutExpired:
        return False
