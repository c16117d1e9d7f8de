"""Tensors on a device."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from .._library import NULL, check, choice, ffi, lib
from ..device import Context, default_context
from ..errors import ArgumentError, UnsupportedError

#: Inputs of ops: tensors, NumPy arrays, DLPack objects, numbers and lists of them.
ArrayLike = Union["Tensor", npt.ArrayLike, Any]
Shape = tuple[int, ...]
_DTYPES: dict[str, tuple[int, Any]] = {"F32": (0, np.float32), "F16": (1, np.float16), "BF16": (2, np.uint16),
                                       "I32": (3, np.int32), "U8": (4, np.uint8)}
_NAMES = tuple(_DTYPES)
_EMPTY = ffi.new("tfm_tensor *")


def dtype_code(name: str) -> int:
    """The enum value of a dtype."""
    return choice(_NAMES, name, "dtype")


class Tensor:
    """A contiguous row-major array in device memory. `numpy()` copies it to the host; operators compute on the
    device. The memory is freed when neither the tensor nor a view of it is referenced."""

    __array_priority__ = 100  # array + tensor calls the tensor's operator

    def __init__(self, context: Context, struct: Any, base: Tensor | None = None) -> None:
        self.context = context
        self._struct = struct
        self._base = base
        self._param: Any = None
        if context._taped is not None:
            context._taped.append(self)

    def __del__(self) -> None:
        context, struct, param = self.context, self._struct, self._param
        if self._base is None or param is not None:
            owned = self._base is None

            def free() -> None:
                ctx = context._handle[0]
                if ctx == NULL:  # tensors end with their context
                    return
                if param is not None:
                    lib.tfm_tensor_free(ctx, ffi.addressof(param, "packed"))
                if owned:
                    lib.tfm_tensor_free(ctx, struct)

            context.drop(free)

    # ---- Properties

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        return tuple(self._struct.dims[i] for i in range(self._struct.rank))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._struct.rank)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(lib.tfm_tensor_count(self._struct[0]))

    @property
    def dtype(self) -> str:
        """The type of the elements: "F32", "F16", "BF16", "I32" or "U8"."""
        return _NAMES[int(self._struct.dtype)]

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth value of a tensor of {self.size} numbers is ambiguous: reduce it first")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __repr__(self) -> str:
        return f"<tfm.ops.Tensor {self.dtype} {self.shape}>"

    # ---- Copies to and from the host

    def numpy(self) -> npt.NDArray[Any]:
        """A copy as a NumPy array; BF16 becomes float32."""
        out = np.empty(self.shape, _DTYPES[self.dtype][1])
        self.context.call(lib.tfm_tensor_read, ffi.from_buffer(out) if out.size else ffi.new("char[1]"),
                          self._struct[0])
        if self.dtype == "BF16":
            return (out.astype(np.uint32) << 16).view(np.float32)
        return out

    def write(self, array: npt.ArrayLike) -> None:
        """Overwrites all elements."""
        given = _as_array(array, self.dtype)
        if given.shape != self.shape:
            raise ArgumentError(f"the tensor is {self.shape}, the array {given.shape}: give one of the same shape")
        if given.size:
            self.context.call(lib.tfm_tensor_write, self._struct[0], ffi.from_buffer(given))
        self.changed()

    def changed(self) -> None:
        """Invalidates the packed copy for GEMM after a change of the elements."""
        if self._param is not None:
            self._param.version += 1

    def item(self) -> float:
        """The value of a tensor with one element."""
        return self.numpy().item()  # type: ignore[no-any-return]

    def __copy__(self) -> Tensor:
        return tensor(self.numpy(), self.dtype, context=self.context)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return tensor, (self.numpy(), self.dtype)  # unpickled on the default context

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a tensor on a device cannot become an array without a copy: omit copy=False")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **how: Any) -> Any:
        """The elements in host memory, for torch.from_dlpack and others."""
        return self.numpy().__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    # ---- Views

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """A view with other dimensions, of which one may be -1."""
        dims = [int(d) for each in shape for d in ([each] if isinstance(each, (int, np.integer)) else each)]
        if dims.count(-1) == 1:
            known = int(np.prod([d for d in dims if d != -1]))
            dims[dims.index(-1)] = self.size // known if known else 0
        out = ffi.new("tfm_tensor *")
        self.context.call(lib.tfm_tensor_reshape, out, self._struct[0], len(dims), dims)
        return Tensor(self.context, out, self._base or self)

    def rows(self, first: int, count: int) -> Tensor:
        """A view of rows of the first dimension."""
        out = ffi.new("tfm_tensor *")
        self.context.call(lib.tfm_tensor_rows, out, self._struct[0], first, count)
        return Tensor(self.context, out, self._base or self)

    # ---- Operators

    def _operate(self, name: str, other: ArrayLike, swapped: bool = False) -> Tensor:
        from .. import ops
        pair = (other, self) if swapped else (self, other)
        made: Tensor = getattr(ops, name)(*pair)
        return made

    def __add__(self, other: ArrayLike) -> Tensor:
        return self._operate("add", other)

    def __radd__(self, other: ArrayLike) -> Tensor:
        return self._operate("add", other, True)

    def __sub__(self, other: ArrayLike) -> Tensor:
        return self._operate("sub", other)

    def __rsub__(self, other: ArrayLike) -> Tensor:
        return self._operate("sub", other, True)

    def __mul__(self, other: ArrayLike) -> Tensor:
        return self._operate("mul", other)

    def __rmul__(self, other: ArrayLike) -> Tensor:
        return self._operate("mul", other, True)

    def __truediv__(self, other: ArrayLike) -> Tensor:
        return self._operate("div", other)

    def __rtruediv__(self, other: ArrayLike) -> Tensor:
        return self._operate("div", other, True)

    def __pow__(self, other: ArrayLike) -> Tensor:
        return self._operate("pow", other)

    def __rpow__(self, other: ArrayLike) -> Tensor:
        return self._operate("pow", other, True)

    def __lt__(self, other: ArrayLike) -> Tensor:
        return self._operate("less", other)

    def __le__(self, other: ArrayLike) -> Tensor:
        return self._operate("less_equal", other)

    def __gt__(self, other: ArrayLike) -> Tensor:
        return self._operate("less", other, True)

    def __ge__(self, other: ArrayLike) -> Tensor:
        return self._operate("less_equal", other, True)

    def __matmul__(self, other: ArrayLike) -> Tensor:
        return self._operate("gemm", other)

    def __rmatmul__(self, other: ArrayLike) -> Tensor:
        return self._operate("gemm", other, True)

    def __neg__(self) -> Tensor:
        from .. import ops
        return ops.neg(self)

    def __getitem__(self, index: Any) -> Tensor:
        from .. import ops
        return ops.slice(self, index)

    # ---- For ops

    def parameter(self) -> Any:
        """The tensor as a parameter, with its packed copy for GEMM."""
        if self._param is None:
            self._param = ffi.new("tfm_param *")
            self._param.value = self._struct[0]
        return self._param


def _as_array(value: Any, dtype: str | None) -> npt.NDArray[Any]:
    """A contiguous array of a supported dtype, without a copy if the caller's already is one."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        try:
            value = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise UnsupportedError(f"DLPack import failed: {error}; copy the array to host memory as float32, "
                                   "float16, int32 or uint8") from error
    array = np.asarray(value)
    if dtype is None:
        dtype = {"f": "F16" if array.dtype == np.float16 else "F32", "i": "I32", "u": "I32", "b": "U8"}.get(
            array.dtype.kind)
        dtype = "U8" if array.dtype == np.uint8 else dtype
        if dtype is None:
            raise UnsupportedError(f"arrays of {array.dtype} are not supported: use float32, float16, int32 or uint8")
    if dtype == "BF16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        return np.ascontiguousarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, np.uint16)
    wanted = _DTYPES[_NAMES[dtype_code(dtype)]][1]
    if dtype == "I32" and array.dtype.itemsize > 4 and array.size and \
            (int(array.max()) > 2**31 - 1 or int(array.min()) < -2**31):
        raise ArgumentError("the array has integers that do not fit into 32 bits: use smaller ones, or float32")
    made = np.require(array, wanted, "C")
    if dtype in ("I32", "U8") and array.dtype != wanted and not np.array_equal(made, array):
        raise ArgumentError(f"the array has numbers that {dtype} cannot represent: make the other operand float32, "
                            "or round them")
    return made


def tensor(value: ArrayLike, dtype: str | None = None, *, context: Context | None = None) -> Tensor:
    """A tensor from an array, a DLPack object or numbers, on the given context or the default one. Without a dtype,
    floats are F32 (or F16), integers I32, and booleans and bytes U8. A tensor is returned as it is."""
    if isinstance(value, Tensor):
        return value
    array = _as_array(value, dtype)
    made = empty(array.shape or (1,), dtype or _name_of(array), context=context)
    if array.size:
        made.context.call(lib.tfm_tensor_write, made._struct[0], ffi.from_buffer(array))
    return made


def _name_of(array: npt.NDArray[Any]) -> str:
    return next(name for name, (_, kind) in _DTYPES.items() if array.dtype == kind and name != "BF16")


def empty(shape: int | Sequence[int], dtype: str = "F32", *, context: Context | None = None) -> Tensor:
    """A tensor without initialized elements."""
    where = context or default_context()
    out = ffi.new("tfm_tensor *")
    dims = [int(d) for d in ([shape] if isinstance(shape, (int, np.integer)) else shape)]
    where.call(lib.tfm_tensor_new, out, dtype_code(dtype), len(dims), dims)
    return Tensor(where, out)


def zeros(shape: int | Sequence[int], dtype: str = "F32", *, context: Context | None = None) -> Tensor:
    """A tensor of zeros."""
    made = empty(shape, dtype, context=context)
    made.write(np.zeros(shape, _DTYPES[dtype][1]))
    return made


def context_of(values: Any) -> Context:
    """The context of the tensors among the values, or the default one."""
    found = {id(v.context): v.context for v in values if isinstance(v, Tensor)}
    if len(found) > 1:
        raise ArgumentError("the tensors are on several contexts: create them on one")
    return next(iter(found.values())) if found else default_context()


def value_of(given: Tensor | None) -> Any:
    """The struct of a tensor, the empty one for None."""
    return _EMPTY[0] if given is None else given._struct[0]


__all__ = ["ArrayLike", "Tensor", "check", "context_of", "dtype_code", "empty", "tensor", "value_of", "zeros"]
