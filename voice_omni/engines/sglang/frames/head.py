"""From the backbone's hidden rows to whole frames: the parts that this takes, and the way of plain torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from voice_omni.engines.sglang.frames.draws import Chances, draw, penalised, uniform
from voice_omni.engines.sglang.frames.predictor import CodePredictor
from voice_omni.engines.sglang.frames.slots import Slots


@dataclass(frozen=True, slots=True)
class Parts:
    """``table`` ``[vocabulary, width]``: rows of first codes. ``suppressed`` float32 ``[vocabulary]``: added to their
    logits. ``top_k`` and ``top_p``: how residual codes are drawn, of rows that do not take the likeliest ones."""

    slots: Slots
    predictor: CodePredictor
    table: torch.Tensor
    suppressed: torch.Tensor
    top_k: int
    top_p: float


class FrameHead(Protocol):
    def write(self, at: torch.Tensor, hidden: torch.Tensor, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """``at`` int64 ``[n]``: slots; ``hidden`` ``[n, width]``; ``logits`` float32 ``[n, vocabulary]``: of the first
        codes, before anything is taken off. The frames, int64 ``[n, codebooks]``, and what is read of them, ``[n,
        width]``. Changes nothing in the slots."""
        ...


class TorchHead:
    """A :class:`FrameHead` that any device computes; the reference for others."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def write(self, at: torch.Tensor, hidden: torch.Tensor, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = self._parts
        slots = parts.slots
        seed, step, how = slots.seed[at], slots.step[at], slots.chances(at)
        logits = penalised(logits, slots.said[at], slots.penalty[at]) + parts.suppressed
        code = draw(logits, uniform(seed, step, 0), how)
        residual = Chances(
            (how.temperature > 0).float(),
            torch.full_like(how.top_k, parts.top_k),
            torch.full_like(how.top_p, parts.top_p),
        )
        codes, rows = parts.predictor(
            hidden,
            functional.embedding(code, parts.table),
            lambda book, scores: draw(scores, uniform(seed, step, book), residual),
        )
        return torch.cat((code[:, None], codes), dim=1), rows
