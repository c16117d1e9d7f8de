"""Model ops: GEMM, norms, attention, embeddings and positions, sampling, losses, Adam."""
from __future__ import annotations

from typing import Any, Literal

from .._library import NULL, choice, ffi, lib
from ..device import Context, default_context
from ._functions import Activation, activation_code, given, held, make, make_several
from ._tensor import ArrayLike, Tensor, context_of, tensor, value_of

_STAGES = ("weights", "qk", "capped", "masked")
_SINUSOIDS = ("interleaved", "split", "fairseq")


def _dropout(rate: float, seed: int, stream: int) -> Any:
    options = ffi.new("tfm_dropout_options *")
    options.rate, options.seed, options.stream = rate, seed, stream
    return options


# ---- GEMM


def gemm(a: ArrayLike, b: ArrayLike, *, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1,
         bias: ArrayLike | None = None, activation: Activation = "none") -> Tensor:
    """activation(alpha a b + bias): a is (..., M, K), b is (..., K, N) or, shared by the batch, (K, N)."""
    context = context_of((a, b, bias))
    options = ffi.new("tfm_gemm_options *")
    added = given(context, bias)
    options.transpose_a, options.transpose_b, options.alpha = transpose_a, transpose_b, alpha
    options.bias, options.activation = value_of(added), activation_code(activation)
    left, right = tensor(a, context=context), tensor(b, context=context)
    return make(context, "tfm_gemm", held(left), held(right), options)


def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, activation: Activation = "none") -> Tensor:
    """activation(x weight^T + bias): weight is (N, K). A weight tensor caches its packed copy for GEMM."""
    context = context_of((x, weight, bias))
    added, matrix = given(context, bias), tensor(weight, context=context)
    return make(context, "tfm_linear", held(tensor(x, context=context)), matrix.parameter(), held(added),
                activation_code(activation))


# ---- Norms and dropout


def layernorm(x: ArrayLike, gamma: ArrayLike | None = None, beta: ArrayLike | None = None, *,
              residual: ArrayLike | None = None, epsilon: float = 1e-5) -> Tensor:
    """(s - mean s) / sqrt(var s + epsilon) gamma + beta over the last dimension, where s = x + residual."""
    context = context_of((x, gamma, beta, residual))
    kept = [given(context, each) for each in (residual, gamma, beta)]
    return make(context, "tfm_layernorm", NULL, held(tensor(x, context=context)), *map(held, kept), epsilon)


def layernorm_dropout(x: ArrayLike, branch: ArrayLike, gamma: ArrayLike | None = None, beta: ArrayLike | None = None, *,
                      rate: float = 0, seed: int = 0, stream: int = 0, epsilon: float = 1e-5) -> Tensor:
    """The same with s = x + dropout(branch)."""
    context = context_of((x, branch, gamma, beta))
    kept = [given(context, each) for each in (x, branch, gamma, beta)]
    return make(context, "tfm_layernorm_dropout", NULL, *map(held, kept), epsilon, _dropout(rate, seed, stream))


def layernorm_axes(x: ArrayLike, gamma: ArrayLike | None = None, beta: ArrayLike | None = None, *, axis: int = -1,
                   epsilon: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """LayerNorm over the dimensions from `axis` on together, with the means and 1 / sqrt(var + epsilon)."""
    context = context_of((x, gamma, beta))
    kept = [given(context, each) for each in (x, gamma, beta)]
    y, mean, inverse = make_several(context, "tfm_layernorm_axes", 3, *map(held, kept), axis, epsilon)
    return y, mean, inverse


def rmsnorm(x: ArrayLike, gamma: ArrayLike | None = None, *, residual: ArrayLike | None = None, axis: int = -1,
            epsilon: float = 1e-6) -> Tensor:
    """s / sqrt(mean s^2 + epsilon) gamma over the dimensions from `axis` on, where s = x + residual."""
    context = context_of((x, gamma, residual))
    kept = [given(context, each) for each in (x, residual, gamma)]
    return make(context, "tfm_rmsnorm", NULL, *map(held, kept), axis, epsilon)


def dropout(x: ArrayLike, rate: float, *, seed: int = 0, stream: int = 0) -> Tensor:
    """x with elements set to 0 with probability `rate` and the others scaled up. Use another stream for each call."""
    context = context_of((x,))
    return make(context, "tfm_dropout", held(tensor(x, context=context)), _dropout(rate, seed, stream))


def dropout_masked(x: ArrayLike, rate: float, *, seed: int = 0, stream: int = 0) -> tuple[Tensor, Tensor]:
    """The same, with the mask (U8): 1 for kept elements."""
    context = context_of((x,))
    y, mask = make_several(context, "tfm_dropout_masked", 2, held(tensor(x, context=context)),
                           _dropout(rate, seed, stream))
    return y, mask


# ---- Attention


def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, heads: int = 0, kv_heads: int = 0, scale: float = 0,
              soft_cap: float = 0, causal: bool = False, past: int = 0, window: tuple[int, int] | None = None,
              mask: ArrayLike | None = None, lengths: ArrayLike | None = None, dropout: float = 0, seed: int = 0,
              stream: int = 0) -> Tensor:
    """dropout(softmax(mask + scale q k^T)) v, fused. Either q is (B, T, heads D), or all are (B, H, T, D). `window`
    is the number of keys before and after a query, negative without limit; `mask` is added, or U8 with 0 for hidden
    keys; `lengths` (B) counts the keys of each sequence."""
    return _attention(None, q, k, v, heads, kv_heads, scale, soft_cap, causal, past, window, mask, lengths, dropout,
                      seed, stream)[0]


def attention_scores(q: ArrayLike, k: ArrayLike, v: ArrayLike, *,
                     stage: Literal["weights", "qk", "capped", "masked"] = "weights", heads: int = 0,
                     kv_heads: int = 0, scale: float = 0, soft_cap: float = 0, causal: bool = False, past: int = 0,
                     window: tuple[int, int] | None = None, mask: ArrayLike | None = None,
                     lengths: ArrayLike | None = None) -> tuple[Tensor, Tensor]:
    """The same, with the scores (B, H, T, S) of a stage, the weights by default. Slower."""
    y, scores = _attention(stage, q, k, v, heads, kv_heads, scale, soft_cap, causal, past, window, mask, lengths, 0, 0,
                           0)
    assert scores is not None
    return y, scores


def _attention(stage: str | None, q: ArrayLike, k: ArrayLike, v: ArrayLike, heads: int, kv_heads: int, scale: float,
               soft_cap: float, causal: bool, past: int, window: tuple[int, int] | None, mask: ArrayLike | None,
               lengths: ArrayLike | None, rate: float, seed: int, stream: int) -> tuple[Tensor, Tensor | None]:
    context = context_of((q, k, v, mask, lengths))
    options = ffi.new("tfm_attention_options *")
    options.heads, options.kv_heads, options.scale, options.soft_cap = heads, kv_heads, scale, soft_cap
    options.causal, options.past = causal, past
    if window is not None:
        options.window, options.window_left, options.window_right = True, *window
    hidden, counted = given(context, mask), given(context, lengths, "I32")
    options.mask, options.lengths = value_of(hidden), value_of(counted)
    drop = _dropout(rate, seed, stream)
    options.dropout = drop if rate else NULL
    scores = ffi.new("tfm_tensor *") if stage else None
    if stage:
        options.scores, options.stage = scores, choice(_STAGES, stage, "stage")
    inputs = [tensor(each, context=context) for each in (q, k, v)]
    y = make(context, "tfm_attention", *map(held, inputs), options)
    return y, Tensor(context, scores) if stage else None


def score_additive(q: ArrayLike, k: ArrayLike, v: ArrayLike) -> Tensor:
    """Additive (Bahdanau) scores (B, T, S) = sum over a of v[a] tanh(q[b, t, a] + k[b, s, a])."""
    context = context_of((q, k, v))
    inputs = [tensor(each, context=context) for each in (q, k, v)]
    return make(context, "tfm_score_additive", *map(held, inputs))


def score_general(q: ArrayLike, k: ArrayLike, weight: ArrayLike | None = None) -> Tensor:
    """General (Luong) scores (B, T, S) = (weight q) . k; dot products without a weight."""
    context = context_of((q, k, weight))
    query, key, matrix = tensor(q, context=context), tensor(k, context=context), given(context, weight)
    return make(context, "tfm_score_general", held(query), NULL if matrix is None else matrix.parameter(), held(key))


def align(scores: ArrayLike, *, lengths: ArrayLike | None = None, window: int = 0, past: int = 0,
          centers: ArrayLike | None = None) -> Tensor:
    """The softmax of scores (B, T, S) over visible keys: all within the lengths, or a window around the query."""
    context = context_of((scores, lengths, centers))
    options = ffi.new("tfm_align_options *")
    kept = (given(context, lengths, "I32"), given(context, centers))
    options.lengths, options.window, options.past, options.centers = value_of(kept[0]), window, past, value_of(kept[1])
    return make(context, "tfm_align", held(tensor(scores, context=context)), options)


def ssru(x: ArrayLike, forget: ArrayLike, initial: ArrayLike | None = None) -> tuple[Tensor, Tensor]:
    """The recurrence of SSRU cells over x and forget (B, T, E), from `initial` (B, E) or zeros: max(c, 0), and c."""
    context = context_of((x, forget, initial))
    kept = [given(context, each) for each in (x, forget, initial)]
    y, cells = make_several(context, "tfm_ssru", 2, *map(held, kept), held(None))
    return y, cells


# ---- Embeddings and positions


def embedding(table: ArrayLike, ids: ArrayLike, *, scale: float = 1, positions: ArrayLike | None = None,
              first: int = 0) -> Tensor:
    """scale table[ids] + positions[p], where p counts along the last dimension of ids from `first` on."""
    context = context_of((table, ids, positions))
    words, places = tensor(table, context=context), given(context, positions)
    return make(context, "tfm_embedding", held(words), held(tensor(ids, "I32", context=context)), scale,
                held(places), first)


def sinusoid(positions: int, width: int, layout: Literal["interleaved", "split", "fairseq"] = "interleaved", *,
             context: Context | None = None) -> Tensor:
    """The sinusoidal position table (positions, width)."""
    return make(context or default_context(), "tfm_sinusoid", positions, width, choice(_SINUSOIDS, layout, "layout"))


def rotary_tables(positions: int, width: int, base: float = 10000, *,
                  context: Context | None = None) -> tuple[Tensor, Tensor]:
    """The RoPE tables for `rotary`: cosines and sines (positions, width / 2)."""
    cosines, sines = make_several(context or default_context(), "tfm_rotary_tables", 2, positions, width, base)
    return cosines, sines


def rotary(x: ArrayLike, cosines: ArrayLike, sines: ArrayLike, *, heads: int = 0, interleaved: bool = False,
           positions: ArrayLike | None = None, first: int = 0) -> Tensor:
    """RoPE, rotary position embedding: x is (B, T, heads D) or (B, H, T, D)."""
    context = context_of((x, cosines, sines, positions))
    options = ffi.new("tfm_rotary_options *")
    places = given(context, positions, "I32")
    options.heads, options.interleaved, options.positions, options.first = heads, interleaved, value_of(places), first
    inputs = [tensor(each, context=context) for each in (x, cosines, sines)]
    return make(context, "tfm_rotary", *map(held, inputs), options)


# ---- Sampling, losses, Adam


def sample(logits: ArrayLike, *, temperature: float = 1, top_k: int = 0, top_p: float = 1, min_p: float = 0,
           seed: int = 0, step: int = 0) -> Tensor:
    """Samples an index of each row of logits (R, V)."""
    context = context_of((logits,))
    options = ffi.new("tfm_sample_options *")
    options.temperature, options.top_k, options.top_p, options.min_p = temperature, top_k, top_p, min_p
    options.seed, options.step = seed, step
    return make(context, "tfm_sample", NULL, held(tensor(logits, context=context)), options)


def _entropy(label_smoothing: float, scale: float) -> Any:
    options = ffi.new("tfm_cross_entropy_options *")
    options.label_smoothing, options.scale = label_smoothing, scale
    return options


def cross_entropy(logits: ArrayLike, targets: ArrayLike, *, label_smoothing: float = 0, scale: float = 1) -> Tensor:
    """The sum of the cross-entropy of logits (..., V) with targets (...). `scale` multiplies its gradient."""
    context = context_of((logits, targets))
    wanted = tensor(targets, "I32", context=context)
    return make(context, "tfm_cross_entropy", NULL, held(tensor(logits, context=context)), held(wanted),
                _entropy(label_smoothing, scale))


def linear_cross_entropy(x: ArrayLike, weight: ArrayLike, targets: ArrayLike, bias: ArrayLike | None = None, *,
                         label_smoothing: float = 0, scale: float = 1) -> Tensor:
    """Fused linear and cross-entropy, for logits x weight^T + bias that are never all in memory."""
    context = context_of((x, weight, targets, bias))
    wanted, added = tensor(targets, "I32", context=context), given(context, bias)
    matrix = tensor(weight, context=context)
    return make(context, "tfm_linear_cross_entropy", NULL, held(tensor(x, context=context)), matrix.parameter(),
                held(added), held(wanted), _entropy(label_smoothing, scale))


def adam(x: Tensor, gradient: Tensor, m: Tensor, v: Tensor, *, step: int, learning_rate: float,
         beta1: float = 0.9, beta2: float = 0.98, epsilon: float = 1e-9, weight_decay: float = 0,
         max_grad_norm: float = 0, grad_norm: Tensor | None = None) -> None:
    """One step of Adam on x, in place; `step` counts from 1, and the moments m and v start as zeros. The gradient is
    zeroed for the next step. `max_grad_norm` needs the `grad_norm` of all gradients (l2_norm)."""
    context = context_of((x, gradient, m, v, grad_norm))
    options = ffi.new("tfm_adam_options *")
    options.learning_rate, options.weight_decay, options.step = learning_rate, weight_decay, step
    options.beta1, options.beta2, options.epsilon = beta1, beta2, epsilon
    options.max_grad_norm, options.grad_norm = max_grad_norm, value_of(grad_norm)
    context.call(lib.tfm_adam, *map(value_of, (x, gradient, m, v)), options)
    x.changed()
