"""Automatic differentiation."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._library import lib
from ..device import Context, default_context
from ..errors import ArgumentError
from ._tensor import ArrayLike, Tensor, tensor, value_of, zeros


class Tape:
    """Records the ops that depend on watched tensors, for a backward pass.

        w = ops.tensor([[1.0, 2.0]])
        with ops.Tape() as tape:
            tape.watch(w)
            y = ops.sum(w * w)
            gradient, = tape.gradients(y, [w])

    A context has one tape; a tape is for one backward pass."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or default_context()
        self._gradients: dict[int, tuple[Tensor, Tensor]] = {}

    def __enter__(self) -> Tape:
        if self.context._taped is not None:
            raise ArgumentError("the context has an active tape already: end the other tape first")
        self.context.call(lib.tfm_tape_start)
        self.context._taped = []  # keeps tensors for the backward pass
        return self

    def __exit__(self, *_: object) -> None:
        with self.context.use() as ctx:
            lib.tfm_tape_stop(ctx)
        self.context._taped = None

    def watch(self, *tensors: Tensor) -> None:
        """Requests the gradients of tensors. Call it before the ops that read them."""
        for each in tensors:
            gradient = zeros(each.shape, context=self.context)
            self.context.call(lib.tfm_tape_watch, value_of(each), value_of(gradient))
            self._gradients[id(each)] = (each, gradient)

    def gradients(self, y: Tensor, tensors: Sequence[Tensor], dy: ArrayLike | None = None) -> list[Tensor]:
        """The gradients of y with respect to watched tensors. `dy` is the gradient of the final result with respect
        to y (default: ones). The tape is empty afterwards."""
        missing = [each for each in tensors if id(each) not in self._gradients]
        if missing:
            raise ArgumentError(f"{missing[0]!r} is not watched: call watch before the ops that read it")
        given = None if dy is None else tensor(dy, context=self.context)
        self.context.call(lib.tfm_backward, value_of(y), value_of(given))
        return [self._gradients[id(each)][1] for each in tensors]


def value_and_gradients(function: Callable[..., Tensor], *inputs: ArrayLike,
                        context: Context | None = None) -> tuple[Tensor, list[Tensor]]:
    """The result of a function of tensors, and its gradients with respect to each of them."""
    tensors: list[Tensor] = [tensor(each, context=context) for each in inputs]
    with Tape(context or (tensors[0].context if tensors else None)) as tape:
        tape.watch(*tensors)
        y: Any = function(*tensors)
        if not isinstance(y, Tensor):
            raise ArgumentError(f"the function returned {type(y).__name__}: it must return a tensor")
        return y, tape.gradients(y, tensors)
