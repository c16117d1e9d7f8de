"""Streaming the results of a call as an iterator; progress bars."""
from __future__ import annotations

import importlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, Union

from ._library import ends

T = TypeVar("T")
#: True shows a tqdm bar if tqdm is installed; a function is called with the work done and the total.
Progress = Union[bool, Callable[[int, int], Any]]


def stream(run: Callable[[Callable[[T], bool]], object]) -> Iterator[T]:
    """Runs a call on a separate thread and yields its results. Closing the iterator stops the call."""
    arrived: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    stopped = threading.Event()

    def emit(item: T) -> bool:
        arrived.put((True, item))
        return not stopped.is_set()

    def work() -> None:
        try:
            run(emit)
            arrived.put((False, None))
        except BaseException as error:  # raised in the iterating thread
            arrived.put((False, error))

    thread = threading.Thread(target=work, name="tfm", daemon=True)
    thread.start()
    try:
        while True:
            more, item = arrived.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        stopped.set()
        if not ends():  # at shutdown the thread is blocked: joining it would hang
            thread.join()


def bar_of_tqdm(**options: Any) -> Any:
    """A tqdm progress bar, or None if tqdm is not installed."""
    try:
        return importlib.import_module("tqdm.auto").tqdm(**options)
    except ImportError:
        return None


class Bar:
    """Reports progress to a tqdm bar or to a function."""

    def __init__(self, progress: Progress, about: str, *, unit: str = " tokens", unit_scale: bool = False) -> None:
        self._progress = progress
        self._options: dict[str, Any] = {"desc": about, "unit": unit, "unit_scale": unit_scale}
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> bool:
        """The library's progress callback: False stops the call."""
        if callable(self._progress):
            return self._progress(done, total) is not False
        if self._progress:
            self._show(done, total)
        return True

    def _show(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = bar_of_tqdm(**self._options)
            if self._bar is None:
                self._progress = False
                return
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Closes the bar."""
        if self._bar is not None:
            self._bar.close()
