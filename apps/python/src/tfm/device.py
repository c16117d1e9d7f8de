"""Devices, and contexts on them."""
from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields as dataclass_fields
from typing import Any

import numpy as np

from ._library import (NULL, c_text, check, check_process, count_of, end_calls, ends, error_of, ffi, fields,
                       hold_others, is_forked, lib, to_str, use_devices)
from ._options import keywords
from .errors import ArgumentError, Error

_TYPES = ("cpu", "gpu", "accelerator", "other")
_AGAIN = 16  # so often a driver may refuse work-groups that are smaller each time
_PATIENCE = 10.0  # seconds that the end of Python waits for calls of other threads


@dataclass(frozen=True)
class Device:
    """What a device says of itself."""

    index: int  #: its number over all platforms, by which `device="2"` names it
    platform_index: int  #: the number of its platform
    device_index: int  #: its number there, or -1 for a platform that lists none
    platform: str  #: the name of the platform
    name: str  #: the name of the device
    vendor: str  #: the name of the vendor
    driver: str  #: the version of the driver
    opencl: str  #: the OpenCL version
    type: str  #: "cpu", "gpu", "accelerator" or "other"
    integrated: bool  #: it shares the host's memory
    emulator: bool  #: it is a GPU that the CPU emulates
    fp16: bool  #: it computes in half precision
    compiler: bool  #: it can build programs, which is needed
    compute_units: int  #: cores or multiprocessors
    memory_bytes: int  #: its memory
    max_alloc_bytes: int  #: the largest piece of it
    chosen: bool  #: it is the one that is taken where none is named
    error: str  #: why it cannot be used, or ""


_FIELDS = tuple(field.name for field in dataclass_fields(Device))


def _device(info: Any) -> Device:
    values = fields(info, _FIELDS)
    values["type"] = _TYPES[values["type"]]
    return Device(**values)


def devices() -> list[Device]:
    """All devices of all OpenCL platforms. A platform that fails has a row with its error."""
    use_devices()
    out, count = ffi.new("tfm_device_info **"), ffi.new("size_t *")
    check(lib.tfm_devices_list(out, count))
    try:
        return [_device(out[0][i]) for i in range(count[0])]
    finally:
        lib.tfm_devices_free(out)


def _name_of(device: str | int | Device | None) -> str | None:
    """What the library takes for a device."""
    if isinstance(device, Device):
        return str(device.index)
    if isinstance(device, (int, np.integer)) and not isinstance(device, bool):
        return str(device)
    if device is None or isinstance(device, str):
        return device
    raise TypeError(f"a device is a name, an index or one of devices(), not {type(device).__name__}")


def _lists_several(name: str | None) -> bool:
    """Whether it may be a list of devices, as fleet.h has it."""
    wanted = name or os.environ.get("TFM_DEVICE") or ""
    return "," in wanted or wanted.strip() == "all"


class _Turns:
    """Whose turn it is on a context, and whether Python's end has the last one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last = False

    def begin(self) -> bool:
        """Begins a turn if nobody has one."""
        return self.last or self.lock.acquire(blocking=False)

    def end(self) -> None:
        """Ends it."""
        if not self.last:
            self.lock.release()


class Context:
    """A device that is open, with its memory. Models and tensors are made on one; several may share it.

    `device` is "gpu", "cpu", "accel", one of `devices()` or its index, "platform:device" or part of a name; None takes
    what the environment's TFM_DEVICE says, or else the best. `memory_limit` is the most bytes of its memory to hold.

    Several devices with commas between them, or "all", work together: a model that is opened on them lies on each, and
    they share the lines of a call. `workers` is how many batches each device works on at the same time; 2 keep a CPU
    busier with a small model, and the results are the same. Tensors and `attention_maps` are on the first device; `tfm.train` is told its devices itself.

    Any number of Python threads may use a context: they take turns, and the GIL is free while the device works. It may
    be closed before or after what was made on it."""

    @keywords()
    def __init__(self, device: str | int | Device | None = None, *, memory_limit: int = 0, profile: bool = False,
                 variant: str | None = None, workers: int | None = None) -> None:
        self._turns = _Turns()
        self._owner: int | None = None
        self._dead: deque[Callable[[], None]] = deque()
        self._handle = ffi.new("tfm_context **")
        self._taped: list[Any] | None = None
        self._fleet = ffi.new("tfm_fleet **")
        use_devices()
        name = _name_of(device)
        if workers is None and not _lists_several(name):
            self._open(name, memory_limit, profile, variant)
        elif memory_limit or profile or variant is not None:
            raise ArgumentError("memory_limit, profile and variant are for one device without workers")
        else:
            self._open_fleet(name, count_of(workers, "workers"))
        self._finalizer = weakref.finalize(self, _free_unused, self._handle, self._fleet, self._turns)
        _keep_for_end(self)

    def _open(self, name: str | None, memory_limit: int, profile: bool, variant: str | None) -> None:
        options = ffi.new("tfm_context_options *")
        names = (c_text(name), c_text(variant))
        options.device, options.variant = names
        options.memory_limit, options.profile = memory_limit, profile
        check(lib.tfm_context_open(self._handle, options))

    def _open_fleet(self, name: str | None, workers: int) -> None:
        options, text = ffi.new("tfm_fleet_options *"), c_text(name)
        options.devices, options.workers = text, workers
        check(lib.tfm_fleet_open(self._fleet, options))
        contexts = [member.context for member in self._members() if member.context != NULL]
        self._handle[0] = lib.tfm_context_retain(contexts[0])

    def _members(self) -> list[Any]:
        count = lib.tfm_fleet_count(self._fleet[0])
        return [lib.tfm_fleet_get_member(self._fleet[0], i) for i in range(count)]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return bool(self._handle[0] == NULL)

    @property
    def device(self) -> Device:
        """The device that was opened."""
        with self.use() as ctx:
            return _device(lib.tfm_context_device(ctx)[0])

    @property
    def devices(self) -> list[Device]:
        """The devices that work together, once for each worker, but for those that have failed; or the one."""
        with self.use() as ctx:
            members = [m.context for m in self._members() if m.context != NULL and not m.dropped] or [ctx]
            return [_device(lib.tfm_context_device(each)[0]) for each in members]

    @property
    def variant(self) -> str:
        """Which kind of kernels it runs, such as "cpu-256" or "gpu"."""
        with self.use() as ctx:
            return to_str(lib.tfm_context_variant(ctx))

    @property
    def peak_memory_bytes(self) -> int:
        """The peak of the device memory that was held, in bytes."""
        with self.use() as ctx:
            return int(lib.tfm_context_peak_memory(ctx))

    @property
    def build_seconds(self) -> float:
        """The seconds that building kernels took so far."""
        with self.use() as ctx:
            return float(lib.tfm_context_build_seconds(ctx))

    def finish(self) -> None:
        """Waits until the device has done all that it was asked."""
        self.call(lib.tfm_context_finish)

    def close(self) -> None:
        """Gives the device up. Models that are open on it keep working; tensors end."""
        if not self.closed and not is_forked():
            with self.turn():
                self._finalizer.detach()
                lib.tfm_context_free(self._handle)
                lib.tfm_fleet_free(self._fleet)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<tfm.Context, closed>" if self.closed else f"<tfm.Context on {self.device.name}>"

    def __reduce__(self) -> Any:
        raise TypeError("a Context cannot be copied or pickled: it is a device that is open in this process")

    # ---- For the modules of this package

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A time in which no other thread uses the context."""
        check_process()
        me = threading.get_ident()
        if self._owner == me:
            raise ArgumentError("a callback cannot use the device of the call that it is called by: let it return "
                                "first, or open a tfm.Context for it")
        if ends():
            hold_others()
            raise ArgumentError("Python ends, and the context is closed: use it before")
        try:
            with self._turns.lock:
                self._owner = me
                try:
                    self._sweep()
                    yield
                finally:
                    self._sweep()
                    self._owner = None
        finally:
            hold_others()

    @contextmanager
    def use(self) -> Iterator[Any]:
        """A turn, with the pointer for calls."""
        with self.turn():
            if self.closed:
                raise ArgumentError("the context is closed: open another one")
            yield self._handle[0]

    def call(self, function: Any, *arguments: Any) -> None:
        """A call that begins with the context. What failed is forgotten once it has been raised; where the driver has
        refused work-groups, the call is made again with smaller ones."""
        with self.use() as ctx:
            status = lib.TFM_ERROR_AGAIN
            for _ in range(_AGAIN):
                status = function(ctx, *arguments)
                if status != lib.TFM_ERROR_AGAIN:
                    break
                lib.tfm_context_clear_error(ctx)
            if status != lib.TFM_OK:
                raise self.failure(ctx, status)

    def open(self, alone: Any, together: Any, handle: Any, path: Any, options: Any) -> None:
        """Opens a directory by one of two functions: on the device alone, or on all that work together."""

        def opened(ctx: Any) -> int:
            if self._fleet[0] == NULL:
                return int(alone(handle, ctx, path, options))
            return int(together(handle, self._fleet[0], path, options))

        self.call(opened)

    def failure(self, ctx: Any, status: int) -> Error:
        """The exception of a call that failed, after which the context can be used again."""
        error = error_of(status)
        lib.tfm_context_clear_error(ctx)
        return error

    def drop(self, free: Callable[[], None]) -> None:
        """Frees something that was made on the context, now or as soon as nobody uses it: the collector of garbage
        comes at any moment, on any thread."""
        if is_forked():
            return
        self._dead.append(free)
        if self._turns.begin():
            try:
                self._sweep()
            finally:
                self._turns.end()

    def _sweep(self) -> None:
        while self._dead:
            try:
                free = self._dead.popleft()
            except IndexError:
                return
            free()


def _free_unused(handle: Any, fleet: Any, turns: _Turns) -> None:
    """For a context that nobody holds any more; when Python ends, a thread may yet be at work on one."""
    if not is_forked() and turns.begin():
        lib.tfm_context_free(handle)
        lib.tfm_fleet_free(fleet)
        turns.end()


_at_end: weakref.WeakSet[Context] | None = None


def _keep_for_end(context: Context) -> None:
    """Has the end of Python take the last turn on a context. Called after a finalizer was made, so that what is
    registered here runs before the finalizers do."""
    global _at_end
    if _at_end is None:
        _at_end = weakref.WeakSet()
        atexit.register(_end)
    _at_end.add(context)


def _end() -> None:
    """Python does not wait for daemon threads, and no driver survives that its process ends while it works. So calls
    of other threads are stopped at their next callback, and their threads held."""
    if is_forked() or _at_end is None:
        return
    end_calls()
    until = time.monotonic() + _PATIENCE
    for context in list(_at_end):
        context._turns.last = context._turns.lock.acquire(timeout=max(0.0, until - time.monotonic()))


_default: Context | None = None
_default_lock = threading.Lock()


def default_context() -> Context:
    """The context of `tfm.ops` where no tensor says another: one for the process, opened at first use."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Context()
        return _default
