"""Attention maps: arrays that render as SVG in a notebook."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._library import NULL, Callbacks, Text, c_text, ffi, lib, to_bytes, to_str
from .errors import ArgumentError
from .text import floats_array

if TYPE_CHECKING:
    from .translator import Translator

_KINDS = ("encoder", "self", "cross")
_CELL, _LETTER, _GAP = 14, 7, 24


@dataclass(frozen=True)
class AttentionMap:
    """The attention weights of one layer. `weights[h, r, c]` is the weight of head h from row r's token (query) to
    column c's token (key); a row adds up to 1. For the decoder, row r is the step that reads `rows[r]` and generates
    `written[r]`; pictures of cross-attention label rows with `written`."""

    kind: str  #: "encoder", "self" (the decoder's over the target) or "cross" (the decoder's over the source)
    layer: int  #: counted from 1
    heads: list[int]  #: the heads, counted from 1
    rows: list[str]  #: query tokens
    columns: list[str]  #: key tokens
    weights: npt.NDArray[np.float32]  #: (heads, rows, columns)
    written: list[str]  #: the token generated at each row; for the encoder the same as `rows`

    @property
    def name(self) -> str:
        """The name in `tfm attention --json`, such as "encoder.1.self"."""
        return f"{'encoder' if self.kind == 'encoder' else 'decoder'}.{self.layer}." + \
            ("cross" if self.kind == "cross" else "self")

    def _repr_svg_(self) -> str:
        return _page([self])


class Attention(Sequence[AttentionMap]):
    """The requested attention maps. A notebook renders each as the mean over its heads."""

    def __init__(self, maps: Sequence[AttentionMap]) -> None:
        self._maps = list(maps)

    def __getitem__(self, index: Any) -> Any:
        return self._maps[index]

    def __len__(self) -> int:
        return len(self._maps)

    def __iter__(self) -> Iterator[AttentionMap]:
        return iter(self._maps)

    def __repr__(self) -> str:
        return f"<tfm.Attention: {', '.join(each.name for each in self._maps)}>"

    def _repr_svg_(self) -> str:
        return _page(self._maps)


def attention_maps(model: Translator, source: Text, target: Text | None, kind: str | None, layer: int | None,
                   head: int | None, beam_size: int | None) -> Attention:
    """Implements Translator.attention_maps."""
    if kind is not None and kind not in _KINDS:
        raise ArgumentError(f"the kind is {kind!r}: give encoder, self or cross")
    found: list[AttentionMap] = []
    end: list[str] = []
    calls = Callbacks()

    def on_map(m: Any) -> None:
        name = _KINDS[m.kind]
        if name == "encoder":  # the source's EOS piece is also the target's, generated last
            end[:] = [to_str(m.columns.tokens[m.columns.count - 1])]
        if (kind or name) != name or (layer or m.layer + 1) != m.layer + 1 or (head or 1) > m.heads:
            return
        weights = floats_array(m.weights, m.heads, m.rows.count, m.columns.count)
        if head:
            weights = weights[head - 1:head].copy()
        rows, columns = _tokens(m.rows), _tokens(m.columns)
        written = rows if name == "encoder" else rows[1:] + end
        found.append(AttentionMap(name, m.layer + 1, [head] if head else list(range(1, m.heads + 1)), rows, columns,
                                  weights, written))

    on = calls.make("tfm_attention_map_fn", on_map)
    search = ffi.new("tfm_search_options *")
    search.beam_size = beam_size or 0
    search.should_continue = calls.make("bool(*)(void *)", lambda: True)
    texts = (ffi.new("char[]", to_bytes(source)), c_text(target))
    model._run(calls, lambda pointer: int(lib.tfm_attention_maps(pointer, texts[0], texts[1], NULL, search, on, NULL)))
    if not found:
        info = model.info
        raise ArgumentError(f"no attention has both layer {layer} and head {head}: the model has {info.encoder_layers} "
                            f"encoder layers of {info.encoder_heads} heads and {info.decoder_layers} decoder layers of "
                            f"{info.decoder_heads}")
    return Attention(found)


def _tokens(axis: Any) -> list[str]:
    return [to_str(axis.tokens[i]) for i in range(axis.count)]


def _panel(map_: AttentionMap, left: float, top: float) -> tuple[list[str], float, float]:
    """Renders one map: its title, the labels of rows and columns, and a square for each weight."""
    weights = map_.weights.mean(axis=0)
    rows, columns = ([token.replace("▁", "_") for token in axis] for axis in
                     (map_.written if map_.kind == "cross" else map_.rows, map_.columns))
    across = left + _LETTER * max(map(len, rows), default=0) + 6
    down = top + 20 + _LETTER * max(map(len, columns), default=0)
    mean = "" if len(map_.heads) == 1 else f", mean of {len(map_.heads)} heads"
    heads = f", head {map_.heads[0]}" if len(map_.heads) == 1 else mean
    parts = [f'<text x="{left}" y="{top + 12}" font-weight="bold">{escape(map_.name + heads)}</text>']
    for r, name in enumerate(rows):
        parts.append(f'<text x="{across - 4}" y="{down + _CELL * r + 11}" text-anchor="end">{escape(name)}</text>')
    for c, name in enumerate(columns):
        x = across + _CELL * c + 11
        parts.append(f'<text transform="translate({x},{down - 4}) rotate(-90)">{escape(name)}</text>')
    for r, row in enumerate(weights):
        for c, weight in enumerate(row):
            shade = round(255 * (1 - float(np.clip(weight, 0, 1))))
            parts.append(f'<rect x="{across + _CELL * c}" y="{down + _CELL * r}" width="{_CELL}" height="{_CELL}" '
                         f'fill="rgb({shade},{shade},255)"><title>{escape(rows[r])} → {escape(columns[c])}: '
                         f'{weight:.3f}</title></rect>')
    return parts, across + _CELL * len(columns) + _GAP, down + _CELL * len(rows) + _GAP


def _page(maps: Sequence[AttentionMap]) -> str:
    """Renders maps, one row of pictures for each kind."""
    parts: list[str] = []
    width, top = 0.0, 4.0
    for kind in _KINDS:
        left, bottom = 4.0, top
        for each in maps:
            if each.kind == kind:
                panel, left, below = _panel(each, left, top)
                parts += panel
                bottom = max(bottom, below)
        width, top = max(width, left), bottom
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" '
            f'viewBox="0 0 {width:.0f} {top:.0f}" font-family="sans-serif" font-size="11">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>')
