"""Ops compared with NumPy, gradients compared with finite differences, and memory management."""
from __future__ import annotations

import copy
import gc
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tfm
from tfm import ops

Array = npt.NDArray[np.float32]


def _draw(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _softmax(x: npt.NDArray[Any], axis: int = -1) -> npt.NDArray[Any]:
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def _close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    array = got.numpy()
    assert array.shape == np.asarray(want).shape
    np.testing.assert_allclose(array, want, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def _one_device(context: tfm.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfm.device._default", context)


def test_arrays_round_trip() -> None:
    for kind, name in ((np.float32, "F32"), (np.float16, "F16"), (np.int32, "I32"), (np.uint8, "U8")):
        array = np.arange(6).reshape(2, 3).astype(kind)
        t = ops.tensor(array)
        assert (t.dtype, t.shape, t.size, len(t)) == (name, (2, 3), 6, 2)
        assert t.numpy().dtype == kind and (t.numpy() == array).all()
    assert ops.tensor(np.arange(3.0)).dtype == "F32" and ops.tensor([1, 2]).dtype == "I32"
    assert ops.tensor([True, False]).dtype == "U8" and ops.tensor(3.0).shape == (1,)
    bf16 = ops.tensor(np.array([1.0, 2.5, -3.0], np.float32), "BF16")
    assert bf16.dtype == "BF16" and bf16.numpy().tolist() == [1.0, 2.5, -3.0]
    odd = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    assert (ops.tensor(odd).numpy() == odd).all()
    with pytest.raises(tfm.ArgumentError, match="32 bits"):
        ops.tensor(np.array([2**40]))
    with pytest.raises(tfm.UnsupportedError, match="complex"):
        ops.tensor(np.array([1j]))


def test_tensors_are_used_as_arrays_are() -> None:
    x = ops.tensor([1.0, 2.0, 3.0])
    assert (2**x).numpy().tolist() == [2, 4, 8]
    assert (x < 2).numpy().tolist() == [1, 0, 0] and (2 >= x).numpy().tolist() == [1, 1, 0]
    assert (x > 2.5).numpy().tolist() == [0, 0, 1] and (x <= x).numpy().tolist() == [1, 1, 1]
    assert not ops.tensor(0.0) and float(ops.tensor(2.5)) == 2.5 and int(ops.tensor(7)) == 7
    with pytest.raises(ValueError, match="a tensor of 3 numbers"):
        assert x
    cube = ops.zeros([2, 3, 4])
    assert ops.zeros(3).shape == (3,) and cube[..., 0].shape == (2, 3) and cube[1, ..., 1:].shape == (3, 3)
    assert cube.reshape((4, 6)).shape == cube.reshape(4, -1).shape == (4, 6)
    assert ops.sum(cube, axis=np.int64(1)).shape == (2, 4)  # type: ignore[arg-type]
    for index in (None, [0, 2], np.array([True, False, True]), x):
        with pytest.raises(tfm.ArgumentError, match="a tensor cannot be indexed by"):
            x[index]
    with pytest.raises(tfm.ArgumentError, match="one of F32"):
        ops.tensor([1, 2], "f32")
    with pytest.raises(tfm.ArgumentError, match="one of cls"):
        ops.pool(cube, pooling="middle")  # type: ignore[arg-type]
    with pytest.raises(tfm.ArgumentError, match="must return a tensor"):
        ops.value_and_gradients(lambda a: 3.0, x)  # type: ignore[arg-type, return-value]


def test_copies_have_their_own_memory() -> None:
    for kind in ("F32", "BF16", "I32"):
        x = ops.tensor([1, 2, 3], kind)
        copies = [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
        x.write([4, 5, 6])
        del x
        gc.collect()
        assert [(c.dtype, c.numpy().tolist()) for c in copies] == [(kind, [1, 2, 3])] * 3


def test_dlpack_import_and_export() -> None:
    class Other:
        """An array of another library with only the DLPack interface."""

        def __init__(self, array: Array) -> None:
            self.array = array

        def __dlpack__(self, **how: Any) -> Any:
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    array = _draw(3, 4)
    t = ops.tensor(Other(array))
    assert (t.numpy() == array).all()
    assert (np.from_dlpack(t) == array).all()
    assert (np.asarray(t) == array).all()


def test_operators_and_slices() -> None:
    a, b = _draw(3, 4), _draw(4, seed=2)
    t = ops.tensor(a)
    for got, want in ((t + b, a + b), (2 - t, 2 - a), (t * 3, a * 3), (t / b, a / b), (1 / (t * t + 1), 1 / (a * a + 1)),
                      (-t, -a), ((t * t) ** 0.5, np.abs(a)), (t @ a.T, a @ a.T), (a + t, a + a), (t - a, a - a)):
        _close(got, want)
    for index in (np.s_[1], np.s_[1:], np.s_[:, 2], np.s_[::-1, ::2], np.s_[-1, 1:3], np.s_[2:1], np.s_[::-2]):
        assert (t[index].numpy() == a[index]).all(), index
    assert t[1, 2].item() == a[1, 2]
    assert (t.reshape(2, -1).numpy() == a.reshape(2, 6)).all() and (t.rows(1, 2).numpy() == a[1:]).all()
    with pytest.raises(IndexError):
        t[3]


UNARY: list[tuple[Callable[..., ops.Tensor], Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]] = [
    (ops.neg, np.negative), (ops.abs, np.abs), (ops.exp, np.exp), (ops.tanh, np.tanh),
    (ops.sigmoid, lambda x: 1 / (1 + np.exp(-x))), (ops.erf, np.vectorize(math.erf)),
    (lambda x: ops.sqrt(x * x), np.abs), (lambda x: ops.reciprocal(ops.exp(x)), lambda x: np.exp(-x)),
    (lambda x: ops.log(ops.exp(x)), lambda x: x), (ops.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (ops.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)), (lambda x: ops.clip(x, -0.5, 0.5),
                                                                lambda x: np.clip(x, -0.5, 0.5)),
    (lambda x: ops.activate(x, "relu"), lambda x: np.maximum(x, 0)),
    (lambda x: ops.activate(x, "silu"), lambda x: x / (1 + np.exp(-x))),
    (lambda x: ops.prelu(x, [0.5, 0, -1, 2]), lambda x: np.where(x > 0, x, x * [0.5, 0, -1, 2])),
    (ops.softmax, _softmax), (lambda x: ops.softmax(x, 0), lambda x: _softmax(x, 0)),
    (ops.log_softmax, lambda x: np.log(_softmax(x))), (ops.sum, lambda x: x.sum().reshape(1)),
    (lambda x: ops.mean(x, 0), lambda x: x.mean(0)), (lambda x: ops.max(x, -1, True), lambda x: x.max(-1, keepdims=True)),
    (lambda x: ops.min(x, (0, 1)), lambda x: x.min().reshape(1)), (ops.cumsum, lambda x: x.cumsum(-1)),
    (lambda x: ops.permute(x, (1, 0)), lambda x: x.T), (lambda x: ops.concat([x, x], 1), lambda x: np.hstack([x, x])),
    (lambda x: ops.gather(x, [2, 0]), lambda x: x[[2, 0]]), (lambda x: ops.gather(x, [3, 1], 1), lambda x: x[:, [3, 1]]),
    (lambda x: ops.gather_elements(x, [[1, 2], [0, 0], [3, 3]], 1),
     lambda x: np.take_along_axis(x, np.array([[1, 2], [0, 0], [3, 3]]), 1)),
    (lambda x: ops.l2_norm(x), lambda x: np.sqrt((x * x).sum()).reshape(1)),
    (lambda x: ops.glu(x, activation="relu"), lambda x: np.maximum(x[:, :2], 0) * x[:, 2:]),
    (lambda x: ops.layernorm(x), lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)),
    (lambda x: ops.rmsnorm(x), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)),
    (lambda x: ops.cast(ops.cast(x, "F16"), "F32"), lambda x: x.astype(np.float16).astype(np.float32)),
    (lambda x: ops.dropout(x, 0.0), lambda x: x), (lambda x: ops.embedding(x, [[2, 1]]), lambda x: x[[[2, 1]]]),
]


@pytest.mark.parametrize("number", range(len(UNARY)))
def test_unary_ops_match_numpy(number: int) -> None:
    function, oracle = UNARY[number]
    x = _draw(3, 4)
    _close(function(ops.tensor(x)), oracle(x), 2e-5)


def test_binary_ops_match_numpy() -> None:
    a, b = _draw(3, 4), _draw(1, 4, seed=2)
    functions: list[tuple[Callable[..., ops.Tensor], Any]] = [
        (ops.add, np.add), (ops.sub, np.subtract), (ops.mul, np.multiply), (ops.div, np.divide),
        (ops.minimum, np.minimum), (ops.maximum, np.maximum), (ops.equal, np.equal), (ops.less, np.less),
        (ops.less_equal, np.less_equal)]
    for function, oracle in functions:
        _close(function(a, b), oracle(a, b))
    _close(ops.pow(np.abs(a), b), np.abs(a) ** b)
    _close(ops.where(a > 0, a, b), np.where(a > 0, a, b))
    yes, no = np.array([1, 1, 0, 0], np.uint8), np.array([1, 0, 1, 0], np.uint8)
    functions = [(ops.logical_and, np.logical_and), (ops.logical_or, np.logical_or), (ops.logical_xor, np.logical_xor)]
    for function, oracle in functions:
        _close(function(yes, no), oracle(yes, no))
    _close(ops.onehot([1, 0], 3), np.eye(3)[[1, 0]])
    values, indices = ops.topk(a, 2)
    _close(values, -np.sort(-a)[:, :2])
    _close(indices, np.argsort(-a)[:, :2])


def test_gemm_and_linear() -> None:
    a, b, bias = _draw(2, 5, 3), _draw(7, 3, seed=2), _draw(7, seed=3)
    weight = ops.tensor(b)
    _close(ops.gemm(a, b, transpose_b=True, alpha=2, bias=bias, activation="relu"), np.maximum(2 * a @ b.T + bias, 0))
    _close(ops.linear(a, weight, bias), a @ b.T + bias)
    weight.write(2 * b)  # the packed copy of linear is remade
    _close(ops.linear(a, weight, bias), 2 * a @ b.T + bias)
    _close(ops.score_general(a, a), a @ a.transpose(0, 2, 1))
    _close(ops.score_general(a, a, 2 * np.eye(3)), 2 * a @ a.transpose(0, 2, 1))
    with pytest.raises(tfm.ArgumentError, match=r"gemm"):
        ops.gemm(a, b)
    _close(ops.linear(a, weight), 2 * a @ b.T)  # the error is cleared


def test_attention() -> None:
    q, k, v = _draw(2, 3, 5, 8), _draw(2, 3, 6, 8, seed=2), _draw(2, 3, 6, 8, seed=3)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(8)
    _close(ops.attention(q, k, v), _softmax(scores) @ v)
    seen = np.arange(6)[None, :] <= np.arange(5)[:, None] + 1
    hidden = np.where(seen, scores, -np.inf)
    _close(ops.attention(q, k, v, causal=True, past=1), _softmax(hidden) @ v)
    _close(ops.attention(q, k, v, mask=seen.astype(np.uint8)), _softmax(hidden) @ v)
    y, weights = ops.attention_scores(q, k, v, causal=True, past=1)
    _close(weights, _softmax(hidden))
    _close(y, _softmax(hidden) @ v)
    _close(ops.attention_scores(q, k, v, stage="qk")[1], scores)
    flat = ops.attention(*(x.transpose(0, 2, 1, 3).reshape(2, -1, 24) for x in (q, k, v)), heads=3, lengths=[6, 4])
    counted = np.where((np.arange(6) < np.array([6, 4])[:, None])[:, None, None], scores, -np.inf)
    _close(flat, (_softmax(counted) @ v).transpose(0, 2, 1, 3).reshape(2, 5, 24))
    _close(ops.align(scores[:, 0]), _softmax(scores[:, 0]))


def test_positions_losses_and_sampling() -> None:
    table = ops.sinusoid(5, 6).numpy()
    assert table[3, 0] == pytest.approx(math.sin(3), abs=1e-6) and table[3, 1] == pytest.approx(math.cos(3), abs=1e-6)
    x = _draw(1, 5, 4)
    cosines, sines = ops.rotary_tables(5, 4)
    c, s = cosines.numpy(), sines.numpy()
    turned = np.concatenate([x[..., :2] * c - x[..., 2:] * s, x[..., :2] * s + x[..., 2:] * c], -1)
    _close(ops.rotary(x, cosines, sines, heads=1), turned)
    logits, targets = _draw(4, 7), np.array([1, 0, 6, 3])
    loss = -np.log(_softmax(logits))[np.arange(4), targets].sum()
    _close(ops.cross_entropy(logits, targets), [loss], 1e-4)
    _close(ops.linear_cross_entropy(np.eye(4, dtype=np.float32), ops.tensor(logits.T.copy()), targets), [loss], 1e-4)
    assert ops.sample(logits, top_k=1).numpy().tolist() == logits.argmax(-1).tolist()
    y, mask = ops.dropout_masked(np.ones(1000, np.float32), 0.25, seed=3)
    assert set(np.unique(y.numpy())) == {0, np.float32(4 / 3)} and 0.7 < mask.numpy().mean() < 0.8
    assert ops.pool(x, [2]).shape == (1, 4)
    _close(ops.pool(x, [2]), x[:, :2].mean(1))
    _close(ops.layernorm_axes(x, axis=1)[1], x.mean(axis=(1, 2), keepdims=True))
    _close(ops.layernorm_dropout(x, x), ops.layernorm(x, residual=x).numpy())
    q, k, v = _draw(1, 2, 3), _draw(1, 4, 3, seed=2), _draw(3, seed=3)
    _close(ops.score_additive(q, k, v), np.tanh(q[:, :, None] + k[:, None]) @ v)
    y, cells = ops.ssru(x, np.zeros_like(x))
    assert y.shape == cells.shape == (1, 5, 4)


def test_gradients() -> None:
    x, w, b = _draw(4, 3), _draw(5, 3, seed=2), _draw(5, seed=3)
    targets = [0, 2, 4, 1]

    def loss(w_: ops.Tensor, b_: ops.Tensor) -> ops.Tensor:
        return ops.cross_entropy(ops.linear(x, w_, b_), targets)

    y, (gw, gb) = ops.value_and_gradients(loss, w, b)
    p = _softmax(x @ w.T + b) - np.eye(5)[targets]
    _close(gw, p.T @ x, 1e-4)
    _close(gb, p.sum(0), 1e-4)
    assert y.size == 1
    q = _draw(1, 1, 4, 8)
    _, (gq,) = ops.value_and_gradients(lambda t: ops.sum(ops.attention(t, q, q) * q), q)
    step = 1e-2
    for at in ((0, 0, 0, 0), (0, 0, 2, 5)):
        up, down = q.copy(), q.copy()
        up[at] += step
        down[at] -= step
        f = [float((ops.attention(each, q, q).numpy() * q).sum()) for each in (up, down)]
        assert gq.numpy()[at] == pytest.approx((f[0] - f[1]) / (2 * step), rel=2e-2, abs=1e-3)


def test_tape_misuse_raises() -> None:
    w = ops.tensor(_draw(2, 2))
    with ops.Tape() as tape:
        with pytest.raises(tfm.ArgumentError, match="active tape"):
            ops.Tape().__enter__()
        with pytest.raises(tfm.ArgumentError, match="is not watched"):
            tape.gradients(ops.sum(w), [w])
        tape.watch(w)
        gradient, = tape.gradients(ops.sum(w * w), [w])
    _close(gradient, 2 * w.numpy())
    with ops.Tape() as tape:  # no backward pass
        tape.watch(w)
        ops.sum(w * w)
    _close(ops.add(w, 1), w.numpy() + 1)


def test_adam_learns() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 4)).astype(np.float32)
    truth = np.array([[1.0, -2.0, 0.5, 3.0]], np.float32)
    w, m, v = ops.zeros((1, 4)), ops.zeros((1, 4)), ops.zeros((1, 4))
    wanted = ops.tensor(x @ truth.T)
    for step in range(1, 301):
        with ops.Tape() as tape:
            tape.watch(w)
            difference = ops.linear(x, w) - wanted
            gradient, = tape.gradients(ops.mean(difference * difference), [w])
        ops.adam(w, gradient, m, v, step=step, learning_rate=0.05)
    np.testing.assert_allclose(w.numpy(), truth, atol=1e-2)


def test_memory_is_freed(context: tfm.Context) -> None:
    big = _draw(1 << 20)
    before = None
    for i in range(40):
        t = ops.tensor(big) + 1
        view = t.reshape(1024, 1024)
        del t
        assert view[0, 0].item() == pytest.approx(float(big[0]) + 1)
        del view
        gc.collect()
        if i == 3:
            before = context.peak_memory_bytes
    assert context.peak_memory_bytes == before  # 8 MB were reused forty times


def test_tensors_may_outlive_their_context() -> None:
    with tfm.Context() as own:
        t = ops.tensor([1.0, 2.0], context=own)
        other = ops.tensor([1.0])
        with pytest.raises(tfm.ArgumentError, match="several contexts"):
            t + other
    with pytest.raises(tfm.ArgumentError, match="closed"):
        t.numpy()
    del t
    gc.collect()
