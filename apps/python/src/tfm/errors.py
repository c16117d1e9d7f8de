"""What goes wrong. Every exception carries the library's sentence: what, where, and what to do."""
from __future__ import annotations


class Error(Exception):
    """What the library refused or could not do. `str(error)` is its sentence."""

    #: The name of the library's code, such as "TFM_ERROR_IO".
    name = ""


class ArgumentError(Error, ValueError):
    """Something was passed that cannot be right: a wrong shape, an option out of range, something closed."""

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
    """There is no such device, or its OpenCL driver failed."""

    name = "TFM_ERROR_DEVICE"


class BuildError(Error, RuntimeError):
    """An OpenCL kernel does not compile; the sentence has the driver's log."""

    name = "TFM_ERROR_BUILD"


class InputError(Error, ValueError):
    """A line of text cannot be used, for example because it is too long."""

    name = "TFM_ERROR_INPUT"


class CancelledError(Error):
    """A callback asked to stop."""

    name = "TFM_ERROR_CANCELLED"


class NumericError(Error, ArithmeticError):
    """Numbers that are not finite came out: training has diverged."""

    name = "TFM_ERROR_NUMERIC"


class AgainError(Error, RuntimeError):
    """The driver refused a kernel's work-groups again and again."""

    name = "TFM_ERROR_AGAIN"


BY_NAME: dict[str, type[Error]] = {
    kind.name: kind
    for kind in (ArgumentError, OutOfMemoryError, FileError, FormatError, UnsupportedError, DeviceError, BuildError,
                 InputError, CancelledError, NumericError, AgainError)
}
