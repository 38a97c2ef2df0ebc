"""The frame head of :mod:`.head` in a few large kernels for each step, for CUDA graphs."""

from __future__ import annotations

from typing import Any, Final

import torch

from voice_omni.engines.sglang.frames import kernels
from voice_omni.engines.sglang.frames.head import Parts

_ROWS: Final = 4
"""So many rows are multiplied one after the other. More take tensor cores, whose tiles have sixteen."""
_TILE: Final = 8192
"""Weights that a program reads at a time, where it reads all of its own at once."""
_FEW: Final = 64
"""Codes that can be drawn without sorting all."""


class FusedHead:
    """A :class:`~voice_omni.engines.sglang.frames.head.FrameHead` on CUDA."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        shape = parts.predictor.shape
        self._places = _power(shape.books)
        rotation = parts.predictor.rotation
        # Attention looks at a power of two of places, most of them never written.
        self._rotation = torch.zeros(2, self._places, shape.head, dtype=torch.float32, device=rotation.device)
        self._rotation[:, : shape.books] = rotation

    def write(self, at: torch.Tensor, hidden: torch.Tensor, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape = self._parts.predictor.shape
        predictor = self._parts.predictor
        count, width = hidden.shape
        frames = at.new_empty(count, shape.books)
        sums = hidden.new_empty(count, width, dtype=torch.float32)
        cache = hidden.new_empty(shape.layers, 2, count, shape.kv_heads, self._places, shape.head)
        # The first step has two positions: the hidden row and the first code's.
        stream = hidden.new_empty(count, 2, width)
        stream[:, 0] = hidden
        self._draw(at, logits.contiguous(), frames, 0, self._parts.table, stream[:, 1], sums)
        place, steps = 0, 2
        for book in range(1, shape.books):
            self._layers(stream, cache, place, steps)
            scores = self._product(stream[:, steps - 1], predictor.heads[book - 1], predictor.norm, dtype=torch.float32)
            place, steps = place + steps, 1
            stream = stream if book > 1 else hidden.new_empty(count, 1, width)
            self._draw(at, scores, frames, book, predictor.tables[book - 1], stream[:, 0], sums)
        return frames, sums.to(hidden.dtype)

    def _layers(self, stream: torch.Tensor, cache: torch.Tensor, place: int, steps: int) -> None:
        """All layers, in place. ``stream`` ``[rows, steps, width]``: the positions from ``place`` on."""
        shape = self._parts.predictor.shape
        rows, width = len(stream), stream.shape[-1]
        flat = stream.view(rows * steps, width)
        layer: Any
        for layer, kept in zip(self._parts.predictor.layers, cache, strict=True):
            joined = self._product(flat, layer.qkv, layer.input_layernorm)
            attended = flat.new_empty(rows * steps, shape.heads * shape.head)
            kernels.attention[(rows, shape.kv_heads)](
                joined, kept, layer.q_norm, layer.k_norm, self._rotation, attended, shape.epsilon, shape.head**-0.5,
                place, rows, steps=steps, group=shape.heads // shape.kv_heads, heads=shape.kv_heads, head=shape.head,
                places=self._places, num_warps=1,
            )  # fmt: skip
            self._product(attended, layer.o_proj, onto=flat)
            inner = self._product(flat, layer.gate_up, layer.post_attention_layernorm, gated=True)
            self._product(inner, layer.down_proj, onto=flat)

    def _product(
        self,
        rows: torch.Tensor,
        weight: torch.Tensor,
        norm: torch.Tensor | None = None,
        *,
        gated: bool = False,
        onto: torch.Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        """``rows`` ``[n, inner]``, perhaps apart, and normed first if there is a ``norm``; ``onto``: what is added
        to, in place."""
        outputs, inner = weight.shape
        outputs = outputs // 2 if gated else outputs
        count = len(rows)
        out = rows.new_empty(count, outputs, dtype=dtype) if onto is None else onto
        epsilon = self._parts.predictor.shape.epsilon
        span = _power(inner)
        if count <= _ROWS:
            columns = max(_TILE // span // (2 if gated else 1), 1)
            kernels.row_product[(_cut(outputs, columns),)](
                rows, norm, weight, out, epsilon, outputs, rows.stride(0),
                count=count, inner=inner, normed=norm is not None, gated=gated, added=onto is not None,
                columns=columns, span=span, num_warps=4,
            )  # fmt: skip
            return out
        if norm is not None:
            normed = rows.new_empty(count, inner)
            kernels.normalising[(count,)](
                rows, norm, normed, epsilon, rows.stride(0), inner=inner, span=span, num_warps=4
            )
            rows = normed
        block = min(max(_power(count), 16), 64)
        columns = 32 if outputs >= 4096 else 16
        kernels.product[(_cut(outputs, columns), _cut(count, block))](
            rows, weight, out, count, outputs,
            inner=inner, gated=gated, added=onto is not None, rows=block, columns=columns, depth=min(256, span),
            num_warps=4, num_stages=5 if block < 64 else 3,
        )  # fmt: skip
        return out

    def _draw(
        self, at: torch.Tensor, logits: torch.Tensor, frames: torch.Tensor, book: int, table: torch.Tensor,
        read: torch.Tensor, sums: torch.Tensor,
    ) -> None:  # fmt: skip
        """The code of a book into ``frames``, its row of ``table`` into ``read`` ``[n, width]`` and ``sums``."""
        parts, slots = self._parts, self._parts.slots
        rows, vocabulary = logits.shape
        width = table.shape[1]
        few = min(_FEW, _power(vocabulary))
        kernels.drawing[(rows,)](
            logits, slots.said, slots.penalty, parts.suppressed, slots.seed, slots.step, slots.temperature,
            slots.top_k, slots.top_p, frames, table, read, sums, at, vocabulary, book, width, frames.shape[1],
            read.stride(0), parts.top_k, parts.top_p,
            first=book == 0, short=book > 0 and 0 < parts.top_k <= few, size=_power(vocabulary), few=few,
            span=_power(width), num_warps=4,
        )  # fmt: skip


def _power(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def _cut(size: int, part: int) -> int:
    """Into how many parts."""
    return -(-size // part)
