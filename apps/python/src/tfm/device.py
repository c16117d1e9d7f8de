"""Devices and contexts."""
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
_AGAIN = 16  # attempts with smaller work-groups
_PATIENCE = 10.0  # seconds that shutdown waits for calls of other threads


@dataclass(frozen=True)
class Device:
    """Device info."""

    index: int  #: index over all platforms, as in `device="2"`
    platform_index: int  #: index of its platform
    device_index: int  #: index in the platform, or -1 for a platform without devices
    platform: str  #: the name of the platform
    name: str  #: the name of the device
    vendor: str  #: the name of the vendor
    driver: str  #: the version of the driver
    opencl: str  #: the OpenCL version
    type: str  #: "cpu", "gpu", "accelerator" or "other"
    integrated: bool  #: shares the host's memory
    emulator: bool  #: a GPU emulated by the CPU
    fp16: bool  #: supports half precision
    compiler: bool  #: can build programs, which tfm needs
    compute_units: int  #: cores or multiprocessors
    memory_bytes: int  #: global memory
    max_alloc_bytes: int  #: the largest allocation
    chosen: bool  #: the default device
    error: str  #: why it cannot be used, or ""


_FIELDS = tuple(field.name for field in dataclass_fields(Device))


def _device(info: Any) -> Device:
    values = fields(info, _FIELDS)
    values["type"] = _TYPES[values["type"]]
    return Device(**values)


def devices() -> list[Device]:
    """All devices of all OpenCL platforms. A failing platform has one entry with its error."""
    use_devices()
    out, count = ffi.new("tfm_device_info **"), ffi.new("size_t *")
    check(lib.tfm_devices_list(out, count))
    try:
        return [_device(out[0][i]) for i in range(count[0])]
    finally:
        lib.tfm_devices_free(out)


def _name_of(device: str | int | Device | None) -> str | None:
    """The device selector of the library."""
    if isinstance(device, Device):
        return str(device.index)
    if isinstance(device, (int, np.integer)) and not isinstance(device, bool):
        return str(device)
    if device is None or isinstance(device, str):
        return device
    raise TypeError(f"a device is a name, an index or one of devices(), not {type(device).__name__}")


def _lists_several(name: str | None) -> bool:
    """Whether the selector is a list of devices (fleet.h)."""
    wanted = name or os.environ.get("TFM_DEVICE") or ""
    return "," in wanted or wanted.strip() == "all"


class _Turns:
    """The lock of a context; `last` is set if Python's shutdown holds it for good."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last = False

    def begin(self) -> bool:
        """Takes the lock if it is free."""
        return self.last or self.lock.acquire(blocking=False)

    def end(self) -> None:
        """Releases the lock."""
        if not self.last:
            self.lock.release()


class Context:
    """An open device and its memory. Models and tensors belong to a context; several may share one.

    `device` is "gpu", "cpu", "accel", one of `devices()` or its index, "platform:device" or part of a name. None
    means the environment variable TFM_DEVICE, or else the best device. `memory_limit` is the maximum device memory in
    bytes.

    A comma-separated list of devices, or "all", is data parallel: a model has a replica on each, and they share the
    lines of a call. `workers` is the number of batches on each device at the same time; 2 keep a CPU busier with a
    small model, with the same results. Tensors and `attention_maps` are on the first device; `tfm.train` has its own
    `device` option.

    Any number of threads may use a context: calls are serialized, and the GIL is released while the device works. It
    may be closed before or after the objects on it."""

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
            raise ArgumentError("memory_limit, profile and variant need one device without workers: "
                                "omit them, or name one device")
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
        """The device."""
        with self.use() as ctx:
            return _device(lib.tfm_context_device(ctx)[0])

    @property
    def devices(self) -> list[Device]:
        """The devices, once for each worker, without failed ones."""
        with self.use() as ctx:
            members = [m.context for m in self._members() if m.context != NULL and not m.dropped] or [ctx]
            return [_device(lib.tfm_context_device(each)[0]) for each in members]

    @property
    def variant(self) -> str:
        """The kernel variant, such as "cpu-256" or "gpu"."""
        with self.use() as ctx:
            return to_str(lib.tfm_context_variant(ctx))

    @property
    def peak_memory_bytes(self) -> int:
        """The peak device memory in bytes."""
        with self.use() as ctx:
            return int(lib.tfm_context_peak_memory(ctx))

    @property
    def build_seconds(self) -> float:
        """The seconds spent on building kernels."""
        with self.use() as ctx:
            return float(lib.tfm_context_build_seconds(ctx))

    def finish(self) -> None:
        """Waits until the device has finished all enqueued work."""
        self.call(lib.tfm_context_finish)

    def close(self) -> None:
        """Closes the context. Open models keep working; tensors end."""
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
        raise TypeError("a Context cannot be copied or pickled: it is bound to a device of this process; "
                        "open one in the other process")

    # ---- For the modules of this package

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Locks the context for this thread."""
        check_process()
        me = threading.get_ident()
        if self._owner == me:
            raise ArgumentError("a callback cannot use the device of the running call: use another tfm.Context, or "
                                "wait until the call returns")
        if ends():
            hold_others()
            raise ArgumentError("the context is closed because Python is shutting down: use it earlier")
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
        """Locks the context and yields its pointer."""
        with self.turn():
            if self.closed:
                raise ArgumentError("the context is closed: open another one")
            yield self._handle[0]

    def call(self, function: Any, *arguments: Any) -> None:
        """A call with the context as its first argument. A failure is cleared and raised; if the driver refused
        work-groups (TFM_ERROR_AGAIN), the call is repeated with smaller ones."""
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
        """Opens a directory on a single device or on a fleet."""

        def opened(ctx: Any) -> int:
            if self._fleet[0] == NULL:
                return int(alone(handle, ctx, path, options))
            return int(together(handle, self._fleet[0], path, options))

        self.call(opened)

    def failure(self, ctx: Any, status: int) -> Error:
        """The exception of a failed call. Clears the context's error."""
        error = error_of(status)
        lib.tfm_context_clear_error(ctx)
        return error

    def drop(self, free: Callable[[], None]) -> None:
        """Frees an object of the context, now or when the context is next unlocked: the garbage collector runs at any
        moment, on any thread."""
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
    """Frees an unreferenced context; at shutdown another thread may still use one."""
    if not is_forked() and turns.begin():
        lib.tfm_context_free(handle)
        lib.tfm_fleet_free(fleet)
        turns.end()


_at_end: weakref.WeakSet[Context] | None = None


def _keep_for_end(context: Context) -> None:
    """Registers a context for shutdown. Called after its finalizer exists, so that `_end` runs before finalizers."""
    global _at_end
    if _at_end is None:
        _at_end = weakref.WeakSet()
        atexit.register(_end)
    _at_end.add(context)


def _end() -> None:
    """Python does not wait for daemon threads, and drivers crash if the process ends while they work. So calls of
    other threads are stopped at their next callback, and their threads blocked."""
    if is_forked() or _at_end is None:
        return
    end_calls()
    until = time.monotonic() + _PATIENCE
    for context in list(_at_end):
        context._turns.last = context._turns.lock.acquire(timeout=max(0.0, until - time.monotonic()))


_default: Context | None = None
_default_lock = threading.Lock()


def default_context() -> Context:
    """The default context of `tfm.ops`: one for the process, opened at first use."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Context()
        return _default
