"""What a model with a frame head keeps of each row from one decode step to the next, in tensors of fixed place.

A row owns the slot of the number that SGLang has given its request (``req_pool_indices``). Slot 0 is nobody's: the rows
that fill a batch up to the size of a CUDA graph read and write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from voice_omni.engines.interface import Rows, Sampling
from voice_omni.engines.sglang.frames.draws import Chances

CONDITIONS: Final = 256
"""Conditions of a row on the device at most. Further ones wait in the host's memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A row moves into ``slot``. Its next step reads ``first`` ``[width]``; it has ``said`` something before."""

    slot: int
    first: Rows
    padding: Rows
    sampling: Sampling
    said: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Fed:
    """Conditions of the row in ``slot``, ``[n, width]``, from the number ``start`` on; :data:`CONDITIONS` at most."""

    slot: int
    start: int
    rows: Rows


class Slots:
    """``rows`` ``[slots, width]``: the input of the next step, without its condition. ``conditions`` ``[slots, n,
    width]``: a ring; ``written``: how many have been put there. ``step``: steps computed. ``said`` ``[slots,
    vocabulary]``: first codes drawn so far. ``frames`` ``[slots, codebooks]``: the last one.

    The methods of a step can be captured in a CUDA graph. :meth:`begin` and :meth:`feed` are called between steps, on
    the stream that computes them, and wait for nothing. What they launch does not grow with the number of rows.
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

    def begin(self, arrivals: Sequence[Arrival]) -> None:
        if not arrivals:
            return
        rows = np.stack([row for each in arrivals for row in (each.first, each.padding)])
        whole = [
            (each.slot, len(each.said), (each.sampling.seed + 2**63) % 2**64 - 2**63, each.sampling.top_k)
            for each in arrivals
        ]
        real = [(each.sampling.temperature, each.sampling.top_p, each.sampling.repetition_penalty) for each in arrivals]
        sent = self._sent(rows).to(self.rows.dtype)
        at, step, seed, top_k = self._sent(np.array(whole, np.int64).T)
        temperature, top_p, penalty = self._sent(np.array(real, np.float32).T)
        self.rows[at], self.padding[at] = sent[::2], sent[1::2]
        self.step[at], self.seed[at], self.top_k[at] = step, seed, top_k
        self.temperature[at], self.top_p[at], self.penalty[at] = temperature, top_p, penalty
        self.written.index_fill_(0, at, 0)
        self.said.index_fill_(0, at, False)
        if any(each.said for each in arrivals):
            pairs = [(each.slot, code) for each in arrivals for code in each.said]
            speaking, codes = self._sent(np.array(pairs, np.int64).T)
            self.said.index_put_((speaking, codes), self._yes)

    def feed(self, fed: Sequence[Fed]) -> None:
        """In the places of those that have been used up."""
        if not fed:
            return
        counts = [len(each.rows) for each in fed]
        slots = np.array([each.slot for each in fed], np.int64)
        starts = np.array([each.start for each in fed], np.int64)
        number = np.concatenate([start + np.arange(count) for start, count in zip(starts, counts, strict=True)])
        numbers = self._sent(np.concatenate((np.repeat(slots, counts), number % CONDITIONS, slots, starts + counts)))
        at, place, rows_of, written = torch.split(numbers, [len(number), len(number), len(fed), len(fed)])
        sent = self._sent(np.concatenate([each.rows for each in fed]))
        self.conditions[at, place] = sent.to(self.rows.dtype)
        self.written[rows_of] = written

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

    def _sent(self, values: np.ndarray) -> torch.Tensor:
        """On the device, without waiting for what it computes: a copy from any other memory would."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        device = self.rows.device
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
