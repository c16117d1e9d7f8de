"""Elementwise ops, reductions, and ops that move elements."""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .._library import choice, ffi, lib
from ..device import Context
from ..errors import ArgumentError
from ._tensor import ArrayLike, Tensor, context_of, dtype_code, tensor, value_of

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu2", "relu6", "leaky_relu",
                     "sigmoid", "tanh", "mish", "laplace", "gelu_10", "hardswish"]
_ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu2", "relu6", "leaky_relu",
                "sigmoid", "tanh", "mish", "laplace", "gelu_10", "hardswish")
Pool = Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
_POOLS = ("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def activation_code(name: Activation) -> int:
    """The enum value of an activation."""
    return choice(_ACTIVATIONS, name, "activation")


def given(context: Context, value: ArrayLike | None, dtype: str | None = None) -> Tensor | None:
    """An input as a tensor; None stays None."""
    return None if value is None else tensor(value, dtype, context=context)


def held(tensor: Tensor | None) -> Any:
    """An input for `make`, kept referenced during the call: a temporary tensor has no other owner."""
    return value_of(None) if tensor is None else tensor


def _raw(arguments: Sequence[Any]) -> list[Any]:
    return [value_of(each) if isinstance(each, Tensor) else each for each in arguments]


def make(context: Context, name: str, *arguments: Any) -> Tensor:
    """Calls an op with one output."""
    out = ffi.new("tfm_tensor *")
    context.call(getattr(lib, name), out, *_raw(arguments))
    return Tensor(context, out)


def make_several(context: Context, name: str, count: int, *arguments: Any) -> tuple[Tensor, ...]:
    """Calls an op with `count` outputs."""
    outs = [ffi.new("tfm_tensor *") for _ in range(count)]
    context.call(getattr(lib, name), *outs, *_raw(arguments))
    return tuple(Tensor(context, out) for out in outs)


def pair(a: ArrayLike, b: ArrayLike) -> tuple[Context, Tensor, Tensor]:
    """Two inputs of one dtype: that of the tensor among them, else the common type."""
    context = context_of((a, b))
    if isinstance(a, Tensor):
        return context, a, tensor(b, a.dtype, context=context)
    if isinstance(b, Tensor):
        return context, tensor(a, b.dtype, context=context), b
    kind = np.result_type(np.asarray(a), np.asarray(b))
    return context, tensor(np.asarray(a, kind), context=context), tensor(np.asarray(b, kind), context=context)


def _unary(name: str, x: ArrayLike, *more: Any) -> Tensor:
    context = context_of((x,))
    return make(context, name, held(tensor(x, context=context)), *more)


def _binary(name: str, a: ArrayLike, b: ArrayLike) -> Tensor:
    context, left, right = pair(a, b)
    return make(context, name, held(left), held(right))


# ---- Unary functions


def neg(x: ArrayLike) -> Tensor:
    """-x"""
    return _unary("tfm_neg", x)


def abs(x: ArrayLike) -> Tensor:
    """|x|"""
    return _unary("tfm_abs", x)


def sqrt(x: ArrayLike) -> Tensor:
    """The square root."""
    return _unary("tfm_sqrt", x)


def reciprocal(x: ArrayLike) -> Tensor:
    """1 / x"""
    return _unary("tfm_reciprocal", x)


def exp(x: ArrayLike) -> Tensor:
    """e^x"""
    return _unary("tfm_exp", x)


def log(x: ArrayLike) -> Tensor:
    """The natural logarithm."""
    return _unary("tfm_log", x)


def erf(x: ArrayLike) -> Tensor:
    """The error function."""
    return _unary("tfm_erf", x)


def sigmoid(x: ArrayLike) -> Tensor:
    """1 / (1 + e^-x)"""
    return _unary("tfm_sigmoid", x)


def tanh(x: ArrayLike) -> Tensor:
    """The hyperbolic tangent."""
    return _unary("tfm_tanh", x)


def hardswish(x: ArrayLike) -> Tensor:
    """x min(max(x / 6 + 1/2, 0), 1)"""
    return _unary("tfm_hardswish", x)


def hard_sigmoid(x: ArrayLike, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """min(max(alpha x + beta, 0), 1)"""
    return _unary("tfm_hard_sigmoid", x, alpha, beta)


def clip(x: ArrayLike, low: float, high: float) -> Tensor:
    """min(max(x, low), high)"""
    return _unary("tfm_clip", x, low, high)


def activate(x: ArrayLike, activation: Activation) -> Tensor:
    """activation(x)"""
    return _unary("tfm_activate", x, activation_code(activation))


def prelu(x: ArrayLike, slope: ArrayLike) -> Tensor:
    """x where x > 0, else slope x, with a slope for each column."""
    context = context_of((x, slope))
    kept = [given(context, each) for each in (x, slope)]
    return make(context, "tfm_prelu", *map(held, kept))


def cast(x: ArrayLike, dtype: str) -> Tensor:
    """x as "F32", "F16" or "BF16"."""
    return _unary("tfm_cast", x, dtype_code(dtype))


def l2_norm(x: ArrayLike) -> Tensor:
    """The L2 norm over all elements."""
    return _unary("tfm_l2_norm", x)


# ---- Binary functions, with NumPy broadcasting


def add(a: ArrayLike, b: ArrayLike) -> Tensor:
    """a + b"""
    return _binary("tfm_add", a, b)


def sub(a: ArrayLike, b: ArrayLike) -> Tensor:
    """a - b"""
    return _binary("tfm_sub", a, b)


def mul(a: ArrayLike, b: ArrayLike) -> Tensor:
    """a b"""
    return _binary("tfm_mul", a, b)


def div(a: ArrayLike, b: ArrayLike) -> Tensor:
    """a / b"""
    return _binary("tfm_div", a, b)


def pow(a: ArrayLike, b: ArrayLike) -> Tensor:
    """a to the power b"""
    return _binary("tfm_pow", a, b)


def minimum(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The smaller of a and b."""
    return _binary("tfm_min", a, b)


def maximum(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The larger of a and b."""
    return _binary("tfm_max", a, b)


def equal(a: ArrayLike, b: ArrayLike) -> Tensor:
    """1 where a is equal to b, else 0 (U8)."""
    return _binary("tfm_equal", a, b)


def less(a: ArrayLike, b: ArrayLike) -> Tensor:
    """1 where a is less than b, else 0 (U8)."""
    return _binary("tfm_less", a, b)


def less_equal(a: ArrayLike, b: ArrayLike) -> Tensor:
    """1 where a is not more than b, else 0 (U8)."""
    return _binary("tfm_less_equal", a, b)


def logical_and(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Logical AND (U8)."""
    return _binary("tfm_and", a, b)


def logical_or(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Logical OR (U8)."""
    return _binary("tfm_or", a, b)


def logical_xor(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Logical XOR (U8)."""
    return _binary("tfm_xor", a, b)


def where(condition: ArrayLike, a: ArrayLike, b: ArrayLike) -> Tensor:
    """a where the condition is not 0, and b elsewhere."""
    context = context_of((condition, a, b))
    left, right = (tensor(x, next((y.dtype for y in (a, b) if isinstance(y, Tensor)), None), context=context)
                   for x in (a, b))
    return make(context, "tfm_where", held(tensor(condition, "U8", context=context)), held(left),
                held(right))


def glu(x: ArrayLike, gate: ArrayLike | None = None, activation: Activation = "silu", *,
        gate_last: bool = False) -> Tensor:
    """activation(gate) x; without a gate, x has both halves in each row, the gate first unless `gate_last`."""
    context = context_of((x, gate))
    return make(context, "tfm_glu", held(tensor(x, context=context)), held(given(context, gate)),
                activation_code(activation), int(gate_last))


# ---- Reductions


def _reduce(name: str, x: ArrayLike, axis: int | Sequence[int] | None, keepdims: bool) -> Tensor:
    axes = [] if axis is None else [int(axis)] if isinstance(axis, (int, np.integer)) else [int(each) for each in axis]
    return _unary(name, x, ffi.new("int[]", axes or 1), len(axes), keepdims)


def sum(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis`, or over all dimensions."""
    return _reduce("tfm_reduce_sum", x, axis, keepdims)


def mean(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Mean over `axis`, or over all dimensions."""
    return _reduce("tfm_reduce_mean", x, axis, keepdims)


def max(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Maximum over `axis`, or over all dimensions."""
    return _reduce("tfm_reduce_max", x, axis, keepdims)


def min(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Minimum over `axis`, or over all dimensions."""
    return _reduce("tfm_reduce_min", x, axis, keepdims)


def cumsum(x: ArrayLike, axis: int = -1, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative sum along a dimension."""
    return _unary("tfm_cumsum", x, axis, exclusive, reverse)


def softmax(x: ArrayLike, axis: int = -1) -> Tensor:
    """The softmax over a dimension."""
    return _unary("tfm_softmax_axis", x, axis)


def log_softmax(x: ArrayLike, axis: int = -1) -> Tensor:
    """The logarithm of the softmax over a dimension."""
    return _unary("tfm_log_softmax_axis", x, axis)


def pool(x: ArrayLike, lengths: ArrayLike | None = None, pooling: Pool = "mean", first: int = 0) -> Tensor:
    """Pools each sequence of x (B, T, E) to one vector, over its tokens from `first` to its length."""
    context = context_of((x, lengths))
    return make(context, "tfm_pool", held(tensor(x, context=context)), held(given(context, lengths, "I32")),
                choice(_POOLS, pooling, "pooling"), first)


# ---- Moving elements


def permute(x: ArrayLike, axes: Sequence[int]) -> Tensor:
    """x with permuted dimensions, as NumPy's transpose."""
    return _unary("tfm_permute", x, ffi.new("int[]", list(axes)))


def concat(inputs: Sequence[ArrayLike], axis: int = 0) -> Tensor:
    """Concatenates the inputs along a dimension."""
    context = context_of(inputs)
    tensors = [tensor(x, context=context) for x in inputs]
    return make(context, "tfm_concat", len(tensors), [value_of(x) for x in tensors], axis)


def slice(x: ArrayLike, index: Any) -> Tensor:
    """x[index] for slices and integers, as in NumPy."""
    context = context_of((x,))
    whole = tensor(x, context=context)
    parts = index if isinstance(index, tuple) else (index,)
    if any(part is Ellipsis for part in parts):
        at = next(i for i, part in enumerate(parts) if part is Ellipsis)
        parts = parts[:at] + (builtins.slice(None),) * (whole.ndim - len(parts) + 1) + parts[at + 1:]
    for part in parts:
        if not isinstance(part, (builtins.slice, int, np.integer)):
            raise ArgumentError(f"a tensor cannot be indexed by {type(part).__name__}: use slices and integers, or "
                                "gather, where and reshape")
    if len(parts) > whole.ndim:
        raise ArgumentError(f"there are {len(parts)} indices for {whole.ndim} dimensions")
    ranges, shape = [], []
    for at, size in enumerate(whole.shape):
        part = parts[at] if at < len(parts) else builtins.slice(None)
        if isinstance(part, builtins.slice):
            start, end, step = part.indices(size)
            ranges.append((start, _INT64_MIN if end < 0 else end, step))
            shape.append(len(range(start, end, step)))
        else:
            number = int(part)
            if not -size <= number < size:
                raise IndexError(f"index {number} is out of range for dimension {at} of size {size}")
            ranges.append((number % size, number % size + 1, 1))
    made = make(context, "tfm_slice", held(whole), ranges)
    return made if len(shape) == made.ndim else made.reshape(*(shape or [1]))


def gather(x: ArrayLike, indices: ArrayLike, axis: int = 0) -> Tensor:
    """x at indices of a dimension."""
    context = context_of((x, indices))
    return make(context, "tfm_gather_axis", held(tensor(x, context=context)),
                held(tensor(indices, "I32", context=context)), axis)


def gather_elements(x: ArrayLike, indices: ArrayLike, axis: int = 0) -> Tensor:
    """The elements of x at the indices along a dimension: with axis 1 of two, y[i, j] = x[i, indices[i, j]]."""
    context = context_of((x, indices))
    return make(context, "tfm_gather_elements", held(tensor(x, context=context)),
                held(tensor(indices, "I32", context=context)), axis)


def onehot(indices: ArrayLike, depth: int, axis: int = -1, off: float = 0, on: float = 1) -> Tensor:
    """One-hot vectors of length `depth`: `on` at the index and `off` elsewhere."""
    context = context_of((indices,))
    return make(context, "tfm_onehot", held(tensor(indices, "I32", context=context)), depth, axis, off, on)


def topk(x: ArrayLike, k: int) -> tuple[Tensor, Tensor]:
    """The k largest elements of each row of x (R, N), and their indices."""
    context = context_of((x,))
    values, indices = ffi.new("tfm_tensor *"), ffi.new("tfm_tensor *")
    rows = tensor(x, context=context)
    context.call(lib.tfm_topk, values, indices, ffi.NULL, value_of(rows), k)
    return Tensor(context, values), Tensor(context, indices)
