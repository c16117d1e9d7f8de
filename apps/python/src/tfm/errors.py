"""Exceptions. Each has the library's message: what failed, why, what to do."""
from __future__ import annotations


class Error(Exception):
    """The base of all errors. `str(error)` is the message."""

    #: The name of the library's code, such as "TFM_ERROR_IO".
    name = ""


class ArgumentError(Error, ValueError):
    """An argument is invalid: a wrong shape, an option out of range, a closed object."""

    name = "TFM_ERROR_ARGUMENT"


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory ran out."""

    name = "TFM_ERROR_MEMORY"


class FileError(Error, OSError):
    """A file or folder cannot be read or written."""

    name = "TFM_ERROR_IO"


class FormatError(Error, ValueError):
    """The content of a file is damaged or contradicts itself."""

    name = "TFM_ERROR_FORMAT"


class UnsupportedError(Error, NotImplementedError):
    """The input is well-formed, but cannot be run."""

    name = "TFM_ERROR_UNSUPPORTED"


class DeviceError(Error, RuntimeError):
    """No such device, or its OpenCL driver failed."""

    name = "TFM_ERROR_DEVICE"


class BuildError(Error, RuntimeError):
    """An OpenCL kernel does not compile; the message has the driver's build log."""

    name = "TFM_ERROR_BUILD"


class InputError(Error, ValueError):
    """A line of text cannot be used, for example because it is too long."""

    name = "TFM_ERROR_INPUT"


class CancelledError(Error):
    """A callback stopped the call."""

    name = "TFM_ERROR_CANCELLED"


class NumericError(Error, ArithmeticError):
    """A loss or gradient is not finite: training has diverged."""

    name = "TFM_ERROR_NUMERIC"


class AgainError(Error, RuntimeError):
    """The driver refused a kernel's work-group sizes repeatedly."""

    name = "TFM_ERROR_AGAIN"


BY_NAME: dict[str, type[Error]] = {
    kind.name: kind
    for kind in (ArgumentError, OutOfMemoryError, FileError, FormatError, UnsupportedError, DeviceError, BuildError,
                 InputError, CancelledError, NumericError, AgainError)
}
