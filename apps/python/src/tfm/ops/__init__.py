"""Tensor ops on arrays, with gradients.

    from tfm import ops
    y = ops.attention(q, k, v, heads=8, causal=True)     # NumPy arrays or tensors
    print(y.numpy())

An op takes tensors, arrays and numbers, and returns a tensor on the device; `numpy()` copies it to the host. Ops are
asynchronous: only reads wait. `Tape` computes gradients."""
import inspect as _inspect
import sys as _sys

from .._options import keywords as _keywords
from ._functions import (abs, activate, add, cast, clip, concat, cumsum, div, equal, erf, exp, gather,
    gather_elements, glu, hard_sigmoid, hardswish, l2_norm, less, less_equal, log, log_softmax, logical_and,
    logical_or, logical_xor, max, maximum, mean, min, minimum, mul, neg, onehot, permute, pool, pow, prelu,
    reciprocal, sigmoid, slice, softmax, sqrt, sub, sum, tanh, topk, where)
from ._layers import (adam, align, attention, attention_scores, cross_entropy, dropout, dropout_masked, embedding,
    gemm, layernorm, layernorm_axes, layernorm_dropout, linear, linear_cross_entropy, rmsnorm, rotary, rotary_tables,
    sample, score_additive, score_general, sinusoid, ssru)
from ._tape import Tape, value_and_gradients
from ._tensor import Tensor, empty, tensor, zeros

__all__ = ["Tape", "Tensor", "abs", "activate", "adam", "add", "align", "attention", "attention_scores", "cast",
    "clip", "concat", "cross_entropy", "cumsum", "div", "dropout", "dropout_masked", "embedding", "empty", "equal",
    "erf", "exp", "gather", "gather_elements", "gemm", "glu", "hard_sigmoid", "hardswish", "l2_norm", "layernorm",
    "layernorm_axes", "layernorm_dropout", "less", "less_equal", "linear", "linear_cross_entropy", "log",
    "log_softmax", "logical_and", "logical_or", "logical_xor", "max", "maximum", "mean", "min", "minimum", "mul",
    "neg", "onehot", "permute", "pool", "pow", "prelu", "reciprocal", "rmsnorm", "rotary", "rotary_tables",
    "sample", "score_additive", "score_general", "sigmoid", "sinusoid", "slice", "softmax", "sqrt", "ssru", "sub",
    "sum", "tanh", "tensor", "topk", "value_and_gradients", "where", "zeros"]

# Unknown keyword arguments of ops list the valid ones. The wrapper replaces the function in its module, for pickle.
for _name in __all__:
    if _inspect.isfunction(globals()[_name]):
        _op = _keywords()(globals()[_name])
        globals()[_name] = _op
        setattr(_sys.modules[_op.__module__], _name, _op)
