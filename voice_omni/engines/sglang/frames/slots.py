"""What a model with a frame head keeps of each row from one decode step to the next, in tensors of fixed place.

A row owns the slot of the number that SGLang has given its request (``req_pool_indices``). Slot 0 is nobody's: the rows
that fill a batch up to the size of a CUDA graph read and write it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from voice_omni.engines.interface import Rows, Sampling
from voice_omni.engines.sglang.frames.draws import Chances

CONDITIONS: Final = 256
"""Conditions of a row on the device at most. Further ones wait in the host's memory."""


class Slots:
    """``rows`` ``[slots, width]``: the input of the next step, without its condition. ``conditions`` ``[slots, n,
    width]``: a ring; ``written``: how many have been put there. ``step``: steps computed. ``said`` ``[slots,
    vocabulary]``: first codes drawn so far. ``frames`` ``[slots, codebooks]``: the last one.

    The methods of a step can be captured in a CUDA graph. :meth:`begin` and :meth:`feed` are called between steps, on
    the stream that computes them, and wait for nothing.
    """

    def __init__(self, count: int, width: int, vocabulary: int, books: int) -> None:
        self.rows = torch.zeros(count, width)
        self.padding = torch.zeros(count, width)
        self.conditions = torch.zeros(count, CONDITIONS, width)
        self.written = torch.zeros(count, dtype=torch.int64)
        self.step = torch.zeros(count, dtype=torch.int64)
        self.seed = torch.zeros(count, dtype=torch.int64)
        self.temperature = torch.zeros(count, dtype=torch.float32)
        self.top_k = torch.zeros(count, dtype=torch.int64)
        self.top_p = torch.ones(count, dtype=torch.float32)
        self.penalty = torch.ones(count, dtype=torch.float32)
        self.said = torch.zeros(count, vocabulary, dtype=torch.bool)
        self.frames = torch.zeros(count, books, dtype=torch.int64)
        self._yes = torch.ones((), dtype=torch.bool)

    @property
    def count(self) -> int:
        return len(self.step)

    def begin(self, slot: int, first: Rows, padding: Rows, sampling: Sampling, said: tuple[int, ...]) -> None:
        """A row moves in, whose next step reads ``first`` and which has ``said`` something before."""
        self.rows[slot] = self._sent(first)
        self.padding[slot] = self._sent(padding)
        # An assignment to a single element would copy the number from pageable memory, and wait for the stream.
        self.written[slot].fill_(0)
        self.step[slot].fill_(len(said))
        self.seed[slot].fill_((sampling.seed + 2**63) % 2**64 - 2**63)
        self.temperature[slot].fill_(sampling.temperature)
        self.top_k[slot].fill_(sampling.top_k)
        self.top_p[slot].fill_(sampling.top_p)
        self.penalty[slot].fill_(sampling.repetition_penalty)
        self.said[slot].fill_(False)
        if said:
            self.said[slot].index_fill_(0, self._sent(np.array(said)), True)

    def feed(self, slot: int, start: int, rows: Rows) -> None:
        """Conditions from the number ``start`` on, :data:`CONDITIONS` at most, in the places of those used up."""
        sent = self._sent(rows)
        first = start % CONDITIONS
        fitting = min(len(rows), CONDITIONS - first)
        self.conditions[slot, first : first + fitting] = sent[:fitting]
        self.conditions[slot, : len(rows) - fitting] = sent[fitting:]
        self.written[slot].fill_(start + len(rows))

    def inputs(self, at: torch.Tensor) -> torch.Tensor:
        """What the rows in the slots ``at`` ``[n]`` read now: ``[n, width]``."""
        number = self.step[at] - 1
        condition = self.conditions[at, number % CONDITIONS]
        condition = torch.where((number < self.written[at])[:, None], condition, self.padding[at])
        return self.rows[at] + torch.where((number >= 0)[:, None], condition, 0.0)

    def chances(self, at: torch.Tensor) -> Chances:
        return Chances(self.temperature[at], self.top_k[at], self.top_p[at])

    def advance(self, at: torch.Tensor, frames: torch.Tensor, rows: torch.Tensor) -> None:
        """A step is over: what it wrote, ``frames`` ``[n, codebooks]``, is read next as ``rows`` ``[n, width]``."""
        self.rows[at] = rows
        self.frames[at] = frames
        self.said.index_put_((at, frames[:, 0]), self._yes)
        self.step[at] = self.step[at] + 1

    def _sent(self, values: Rows | np.ndarray) -> torch.Tensor:
        """On the device, without waiting for what it computes."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if tensor.is_floating_point():
            tensor = tensor.to(self.rows.dtype)
        device = self.rows.device
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
