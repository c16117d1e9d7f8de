"""The shared library, and what every call of it needs: texts, statuses, callbacks."""
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
            "tfm needs an OpenCL loader, libOpenCL.so.1, which is not here: install ocl-icd-libopencl1 and a driver "
            "such as pocl-opencl-icd (Debian), or ocl-icd and pocl (conda-forge) where you are not root") from error


lib: Any = _open()


# ---- Texts


def to_bytes(text: Text) -> bytes:
    """UTF-8; what is none stays none, so that the library can say so."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a text is str or bytes, not {type(text).__name__}")
    return text.encode("utf-8", "surrogatepass")


def texts(given: Text | Iterable[Text]) -> tuple[list[Text], bool]:
    """A text, or each of several, as a list; and whether it was one."""
    if isinstance(given, (str, bytes)):
        return [given], True
    if not isinstance(given, Iterable):
        raise TypeError(f"texts are str or bytes, or several of these, not {type(given).__name__}")
    return list(given), False


def several(given: Iterable[Text]) -> list[Text]:
    """Texts as a list, where one alone is taken for a slip: it would be as many as it has characters."""
    found, single = texts(given)
    if single:
        raise TypeError("here are several texts wanted, and one is given: put it into a list")
    return found


def count_of(value: int | None, what: str) -> int:
    """A number of the options, of which the library takes 0 for its own choice, as None says it here."""
    if value is None:
        return 0
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}: give a whole number, or leave it away") from None
    if number < 1:
        raise ArgumentError(f"{what} is {value}: give at least 1, or leave it away")
    return number


def choice(names: Iterable[str], given: Any, what: str) -> int:
    """The library's number of a word: its place among these."""
    known = list(names)
    if given not in known:
        raise ArgumentError(f"the {what} is {given!r}: give one of {', '.join(known)}")
    return known.index(given)


def to_str(text: Any) -> str:
    """A string of the library; "" for NULL."""
    return "" if text == NULL else ffi.string(text).decode("utf-8", "replace")


def c_text(text: Text | None) -> Any:
    """A `char *` that lives as long as it is held, or NULL for None."""
    return NULL if text is None else ffi.new("char[]", to_bytes(text))


def c_path(path: str | bytes | os.PathLike[str]) -> Any:
    """A file's name as the system has it."""
    return ffi.new("char[]", os.fsencode(path))


class Lines:
    """Lines for the library, which reads them where Python has them."""

    def __init__(self, lines: Sequence[Text]) -> None:
        self._kept = [ffi.from_buffer(to_bytes(line)) for line in lines]
        self.count = len(self._kept)
        self.text = ffi.new("char const *[]", self._kept)
        self.bytes = ffi.new("size_t[]", [len(line) for line in self._kept])


# ---- Statuses


def error_of(status: int, sentence: str | None = None) -> Error:
    """The exception of a status: the library's last sentence on this thread, unless another is given."""
    kind = BY_NAME.get(to_str(lib.tfm_status_name(status)), Error)
    return kind(to_str(lib.tfm_error_message()) if sentence is None else sentence)


def check(status: int) -> None:
    """Raises what a call came to, unless all went well."""
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
        """A callback of this type, whose `user` pointer is left out. Only False stops the call."""

        def guarded(_user: Any, *given: Any) -> bool:
            return self.error is None and _ender is None and function(*given) is not False

        made = ffi.callback(kind, guarded, error=False, onerror=self._note)
        self._kept.append(made)
        return made

    def check(self, status: int) -> None:
        """Raises the exception of a callback, or else what the call came to."""
        if self.error is not None:
            raise self.error
        check(status)


# ---- Structs


def as_python(value: Any, kind: Any) -> Any:
    """A field of a struct as Python has it."""
    if kind.kind == "pointer" and kind.item.cname == "char":
        return to_str(value)
    if kind.kind == "array" and kind.item.cname == "char":
        return to_str(value)
    if kind.kind == "enum":
        return int(value)
    return value


def fields(struct: Any, names: Sequence[str]) -> dict[str, Any]:
    """Those fields of a struct."""
    kinds = dict(ffi.typeof(struct).fields)
    return {name: as_python(getattr(struct, name), kinds[name].type) for name in names}


def set_precision(options: Any, precision: str | None) -> Any:
    """Says the precision in the options of a call, in whatever form they have it; "auto" leaves it to the library. What it returns must be held until
    the call is over."""
    if precision is None or precision == "auto":
        return None
    field = dict(ffi.typeof(options).item.fields).get("precision")
    if field is None:
        if precision != "fp32":
            raise BY_NAME["TFM_ERROR_UNSUPPORTED"](
                f"precision {precision} is not available: leave the precision away, or give fp32")
        return None
    if field.type.kind == "pointer":
        options.precision = text = c_text(precision)
        return text
    wanted = "_" + precision.upper()
    for name, value in field.type.relements.items():
        if name.endswith(wanted):
            options.precision = value
            return None
    known = ", ".join(sorted(name.rsplit("_", 1)[-1].lower() for name in field.type.relements))
    raise BY_NAME["TFM_ERROR_ARGUMENT"](f"precision {precision} is not known: give one of {known}")


# ---- Forks

_device_used = False  # a driver was asked for its devices
_forked = False  # after that, this process was forked from the one that asked


def use_devices() -> None:
    """Says that drivers are asked, which have threads of their own, and no thread survives a fork."""
    global _device_used
    check_process()
    _device_used = True


def check_process() -> None:
    """Raises in a child that was forked after its parent had used a device: a driver would wait for ever there."""
    if _forked:
        raise BY_NAME["TFM_ERROR_DEVICE"](
            "this process was forked from one that had used a device, and OpenCL drivers do not survive that: start it by "
            'multiprocessing.get_context("spawn"), or use devices in the child alone')


def is_forked() -> bool:
    """Whether this process is such a child; it frees nothing of its parent's."""
    return _forked


def _in_child() -> None:
    global _forked
    _forked = _device_used


os.register_at_fork(after_in_child=_in_child)


# ---- The end of Python

_ender: int | None = None  # the thread on which Python ends, once it does


def end_calls() -> None:
    """Says that Python ends on this thread: whatever asks a callback is stopped there."""
    global _ender
    _ender = threading.get_ident()


def ends() -> bool:
    """Whether Python ends."""
    return _ender is not None


def hold_others() -> None:
    """Where Python ends on another thread, which does not wait for this one: never returns."""
    if _ender is not None and _ender != threading.get_ident():
        threading.Event().wait()


# ---- The log


def _on_log(_user: Any, level: int, line: Any) -> None:
    _LOG.log(_LEVELS[level], "%s", to_str(line))


# Lines of the library go to logging's "tfm"; what is worth a line is chosen there, but for the flood of debug lines.
_LOG_CALLBACK = ffi.callback("tfm_log_fn", _on_log)
lib.tfm_log_set(_LOG_CALLBACK, NULL, lib.TFM_LOG_INFO)
atexit.register(lambda: lib.tfm_log_set(NULL, NULL, lib.TFM_LOG_WARNING))
