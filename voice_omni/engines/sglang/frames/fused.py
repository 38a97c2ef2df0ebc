"""The frame head of :mod:`.head` in a few large kernels for each step, for CUDA graphs."""

from __future__ import annotations

from typing import Any, Final

import torch

from voice_omni.engines.sglang.frames import kernels
from voice_omni.engines.sglang.frames.head import Parts

_DEPTH: Final = 256
"""How much of the inner axis is multiplied at a time. The order of a sum must not depend on the number of rows."""
_COLUMNS: Final = 16
"""Outputs of one program, as few as tensor cores take: the weights are read by as many programs as there can be."""


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
            scores = self._product(
                stream[:, steps - 1], predictor.norm, predictor.heads[book - 1], steps * width, torch.float32
            )
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
            joined = self._product(flat, layer.input_layernorm, layer.qkv, width, flat.dtype)
            attended = flat.new_empty(rows * steps, shape.heads * shape.head)
            kernels.attention[(rows, shape.kv_heads)](
                joined, kept, layer.q_norm, layer.k_norm, self._rotation, attended, shape.epsilon, shape.head**-0.5,
                place, rows, steps=steps, group=shape.heads // shape.kv_heads, heads=shape.kv_heads, head=shape.head,
                places=self._places, num_warps=4,
            )  # fmt: skip
            self._add(attended, layer.o_proj, flat)
            inner = self._product(flat, layer.post_attention_layernorm, layer.gate_up, width, flat.dtype, gated=True)
            self._add(inner, layer.down_proj, flat)

    def _product(
        self, rows: torch.Tensor, norm: torch.Tensor, weight: torch.Tensor, stride: int, dtype: torch.dtype, *,
        gated: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        outputs, inner = weight.shape
        outputs = outputs // 2 if gated else outputs
        out = torch.empty(len(rows), outputs, dtype=dtype, device=rows.device)
        block = _block(len(rows))
        kernels.normed_product[(_cut(outputs, _COLUMNS), _cut(len(rows), block))](
            rows, norm, weight, out, self._parts.predictor.shape.epsilon, len(rows), outputs, stride,
            inner=inner, gated=gated, rows=block, columns=_COLUMNS, depth=_depth(inner),
            num_warps=4, num_stages=_stages(block),
        )  # fmt: skip
        return out

    def _add(self, rows: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
        outputs, inner = weight.shape
        block = _block(len(rows))
        kernels.added_product[(_cut(outputs, _COLUMNS), _cut(len(rows), block))](
            rows, weight, out, len(rows), outputs,
            inner=inner, rows=block, columns=_COLUMNS, depth=_depth(inner), num_warps=4, num_stages=_stages(block),
        )  # fmt: skip

    def _draw(
        self, at: torch.Tensor, logits: torch.Tensor, frames: torch.Tensor, book: int, table: torch.Tensor,
        read: torch.Tensor, sums: torch.Tensor,
    ) -> None:  # fmt: skip
        """The code of a book into ``frames``, its row of ``table`` into ``read`` ``[n, width]`` and ``sums``."""
        parts, slots = self._parts, self._parts.slots
        rows, vocabulary = logits.shape
        width = table.shape[1]
        kernels.drawing[(rows,)](
            logits, slots.said, slots.penalty, parts.suppressed, slots.seed, slots.step, slots.temperature,
            slots.top_k, slots.top_p, frames, table, read, sums, at, vocabulary, book, width, frames.shape[1],
            read.stride(0), parts.top_k, parts.top_p,
            first=book == 0, size=_power(vocabulary), span=_power(width), num_warps=8,
        )  # fmt: skip


def _power(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def _cut(size: int, part: int) -> int:
    """Into how many parts."""
    return -(-size // part)


def _block(rows: int) -> int:
    """Rows of one program: a tile of tensor cores at least."""
    return min(max(_power(rows), 16), 64)


def _stages(block: int) -> int:
    """Loads under way at a time, as many as shared memory has place for."""
    return 5 if block < 64 else 3


def _depth(inner: int) -> int:
    return min(_DEPTH, _power(inner))
