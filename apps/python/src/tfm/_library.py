"""The shared library, and helpers of all calls: texts, statuses, callbacks, structs."""
from __future__ import annotations

import atexit
import logging
import operator
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

from ._declared import ffi as ffi
from .errors import BY_NAME, ArgumentError, Error

NULL = ffi.NULL
Text = Union[str, bytes]
_LOG = logging.getLogger("tfm")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def _open() -> Any:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtfm.so")
    try:
        return ffi.dlopen(path)
    except OSError as error:
        if "libOpenCL" not in str(error):
            raise
        raise ImportError(
            "cannot load libOpenCL.so.1: no OpenCL loader is installed; install ocl-icd-libopencl1 and a driver such "
            "as pocl-opencl-icd (Debian), or ocl-icd and pocl (conda-forge, without root)") from error


lib: Any = _open()


# ---- Texts


def to_bytes(text: Text) -> bytes:
    """Encodes to UTF-8; lone surrogates pass through, so that the library reports them."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a text is str or bytes, not {type(text).__name__}")
    return text.encode("utf-8", "surrogatepass")


def texts(given: Text | Iterable[Text]) -> tuple[list[Text], bool]:
    """The texts as a list, and whether a single text was given."""
    if isinstance(given, (str, bytes)):
        return [given], True
    if not isinstance(given, Iterable):
        raise TypeError(f"texts are str or bytes, or an iterable of them, not {type(given).__name__}")
    return list(given), False


def several(given: Iterable[Text]) -> list[Text]:
    """Several texts as a list. A single str is refused: it would be iterated by character."""
    found, single = texts(given)
    if single:
        raise TypeError("expected several texts, got one: put it into a list")
    return found


def count_of(value: int | None, what: str) -> int:
    """A positive count, or 0, the library's default, for None."""
    if value is None:
        return 0
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}: give a whole number, or omit it") from None
    if number < 1:
        raise ArgumentError(f"{what} is {value}: give at least 1, or omit it")
    return number


def put(struct: Any, **members: Any) -> None:
    """Sets members of a struct, which have the names of options: an error names the option."""
    for name, value in members.items():
        try:
            setattr(struct, name, value)
        except TypeError:
            raise TypeError(f"{name} is {value!r}: give a number, or omit it") from None
        except OverflowError:
            kind = dict(ffi.typeof(struct).item.fields)[name].type
            bits, signed = 8 * ffi.sizeof(kind), int(ffi.cast(kind, -1)) < 0
            limit = f"most {(1 << bits - signed) - 1}" if value > 0 else f"least {-1 << bits - 1 if signed else 0}"
            raise ArgumentError(f"{name} is {value}: give at {limit}, or omit it") from None


def choice(names: Iterable[str], given: Any, what: str) -> int:
    """The enum value of a name: its index in `names`."""
    known = list(names)
    if given not in known:
        raise ArgumentError(f"the {what} is {given!r}: give one of {', '.join(known)}")
    return known.index(given)


def to_str(text: Any) -> str:
    """A C string as str; "" for NULL."""
    return "" if text == NULL else ffi.string(text).decode("utf-8", "replace")


def c_text(text: Text | None) -> Any:
    """A `char *`, valid while the result is referenced; NULL for None."""
    return NULL if text is None else ffi.new("char[]", to_bytes(text))


def c_path(path: str | bytes | os.PathLike[str]) -> Any:
    """A path in the encoding of the file system."""
    return ffi.new("char[]", os.fsencode(path))


class Lines:
    """Lines for the library, without copies."""

    def __init__(self, lines: Sequence[Text]) -> None:
        self._kept = [ffi.from_buffer(to_bytes(line)) for line in lines]
        self.count = len(self._kept)
        self.text = ffi.new("char const *[]", self._kept)
        self.bytes = ffi.new("size_t[]", [len(line) for line in self._kept])


# ---- Statuses


def error_of(status: int, sentence: str | None = None) -> Error:
    """The exception of a status, with the library's last message on this thread by default."""
    kind = BY_NAME.get(to_str(lib.tfm_status_name(status)), Error)
    return kind(to_str(lib.tfm_error_message()) if sentence is None else sentence)


def check(status: int) -> None:
    """Raises the exception of a status other than TFM_OK."""
    if status != lib.TFM_OK:
        raise error_of(status)


class Callbacks:
    """The callbacks of one call. The first exception in one of them stops the call, and is raised after it."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self.error: BaseException | None = None

    def _note(self, kind: Any, error: BaseException, trace: Any) -> None:
        self.error = self.error or error

    def make(self, kind: str, function: Callable[..., Any]) -> Any:
        """A callback of a C type; its `user` argument is dropped. Only False stops the call."""

        def guarded(_user: Any, *given: Any) -> bool:
            return self.error is None and _ender is None and function(*given) is not False

        made = ffi.callback(kind, guarded, error=False, onerror=self._note)
        self._kept.append(made)
        return made

    def check(self, status: int) -> None:
        """Raises the exception of a callback, or else that of the status."""
        if self.error is not None:
            raise self.error
        check(status)


# ---- Structs


def as_python(value: Any, kind: Any) -> Any:
    """A field of a struct as a Python value."""
    if kind.kind == "pointer" and kind.item.cname == "char":
        return to_str(value)
    if kind.kind == "array" and kind.item.cname == "char":
        return to_str(value)
    if kind.kind == "enum":
        return int(value)
    return value


def fields(struct: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named fields of a struct."""
    kinds = dict(ffi.typeof(struct).fields)
    return {name: as_python(getattr(struct, name), kinds[name].type) for name in names}


def set_adapters(options: Any, adapters: Any) -> Any:
    """Sets the adapters in the options of a call: a path, a pair of path and scale, or a list of both. The caller keeps a
    reference to the result during the call."""
    pair = isinstance(adapters, tuple) and len(adapters) == 2 and isinstance(adapters[1], (int, float))
    single = adapters is not None and (pair or isinstance(adapters, (str, bytes, os.PathLike)))
    several = [adapters] if single else list(adapters or ())
    items = ffi.new("tfm_adapter[]", len(several))
    texts = []
    for item, each in zip(items, several):
        path, scale = each if isinstance(each, tuple) else (each, 1.0)
        if scale == 0:
            raise BY_NAME["TFM_ERROR_ARGUMENT"](f"the scale of the adapter {path} is 0: omit the adapter")
        texts.append(c_path(path))
        item.dir, item.scale = texts[-1], scale
    options.adapters, options.adapter_count = items, len(several)
    return items, texts


def set_precision(options: Any, precision: str | None, name: str = "precision") -> Any:
    """Sets the precision `name` in the options of a call; "auto" is the library's default. The caller keeps a
    reference to the result during the call."""
    if precision is None or precision == "auto":
        return None
    field = dict(ffi.typeof(options).item.fields).get(name)
    if field is None:
        if precision != "fp32":
            raise BY_NAME["TFM_ERROR_UNSUPPORTED"](
                f"{name} {precision} is not available: omit {name}, or use fp32")
        return None
    if field.type.kind == "pointer":
        text = c_text(precision)
        setattr(options, name, text)
        return text
    wanted = "_" + precision.upper()
    for word, value in field.type.relements.items():
        if word.endswith(wanted):
            setattr(options, name, value)
            return None
    known = ", ".join(sorted(word.rsplit("_", 1)[-1].lower() for word in field.type.relements))
    raise BY_NAME["TFM_ERROR_ARGUMENT"](f"{name} {precision} is not known: give one of {known}")


# ---- Forks

_device_used = False  # this process has used a driver
_forked = False  # this process was forked from one that has used a driver


def use_devices() -> None:
    """Records that this process uses a driver: a driver's threads do not survive a fork."""
    global _device_used
    check_process()
    _device_used = True


def check_process() -> None:
    """Raises in a child forked after its parent had used a device: a driver call would hang."""
    if _forked:
        raise BY_NAME["TFM_ERROR_DEVICE"](
            "cannot use a device: this process was forked from one with an OpenCL driver in use; start it with "
            'multiprocessing.get_context("spawn"), or use devices only in the child')


def is_forked() -> bool:
    """Whether this process is such a child; it must not free its parent's objects."""
    return _forked


def _in_child() -> None:
    global _forked
    _forked = _device_used


os.register_at_fork(after_in_child=_in_child)


# ---- Shutdown of Python

_ender: int | None = None  # the thread on which Python shuts down


def end_calls() -> None:
    """Records that Python shuts down on this thread; calls stop at their next callback."""
    global _ender
    _ender = threading.get_ident()


def ends() -> bool:
    """Whether Python is shutting down."""
    return _ender is not None


def hold_others() -> None:
    """Blocks forever if Python shuts down on another thread, which does not wait for this one."""
    if _ender is not None and _ender != threading.get_ident():
        threading.Event().wait()


# ---- Log


def _on_log(_user: Any, level: int, line: Any) -> None:
    _LOG.log(_LEVELS[level], "%s", to_str(line))


# Log lines go to the logger "tfm", which filters by level; the library drops debug lines.
_LOG_CALLBACK = ffi.callback("tfm_log_fn", _on_log)
lib.tfm_log_set(_LOG_CALLBACK, NULL, lib.TFM_LOG_INFO)
atexit.register(lambda: lib.tfm_log_set(NULL, NULL, lib.TFM_LOG_WARNING))
