"""Drawing codes for all rows of a batch at once, on their device and without waiting for it.

A draw depends on its row's seed, the step and the codebook alone, and is the same as that of
:mod:`voice_omni.engines.torch_sampling`, whose results these functions give for whole batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class Chances:
    """How each row draws: ``temperature`` (0: greedily) and ``top_p`` float32 ``[rows]``, ``top_k`` (0: from all) int64
    ``[rows]``."""

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor


def uniform(seed: torch.Tensor, step: torch.Tensor, book: int) -> torch.Tensor:
    """int64 ``[rows]`` each -> float64 ``[rows]`` in [0, 1), by the finaliser of SplitMix64
    (https://doi.org/10.1145/2714064.2660195)."""
    golden = _signed(_GOLDEN)
    state = _mixed(seed + golden)
    state = _mixed((state ^ step) + golden)
    state = _mixed((state ^ book) + golden)
    return _shifted(state, 11).double() * 2.0**-53


def penalised(logits: torch.Tensor, said: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
    """Repetition penalty ``[rows]`` on float32 logits ``[rows, vocabulary]`` where ``said``
    (https://arxiv.org/abs/1909.05858)."""
    penalty = penalty[:, None]
    return torch.where(said, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def draw(logits: torch.Tensor, chance: torch.Tensor, how: Chances) -> torch.Tensor:
    """float32 logits ``[rows, vocabulary]`` -> int64 ``[rows]``. ``chance`` picks one of the candidates of each row,
    laid out by descending probability."""
    drawing = how.temperature > 0
    scores, order = (logits / torch.where(drawing, how.temperature, 1.0)[:, None]).sort(dim=-1, descending=True)
    places = torch.arange(logits.shape[-1], device=logits.device)
    within = (places < how.top_k[:, None]) | (how.top_k[:, None] == 0)
    probabilities = torch.softmax(torch.where(within, scores, -torch.inf).double(), dim=-1)
    ends = probabilities.cumsum(-1)
    kept = ((ends - probabilities < how.top_p[:, None]) & within).sum(-1).clamp(min=1)
    total = ends.gather(-1, kept[:, None] - 1)
    place = torch.searchsorted(ends, chance[:, None] * total, right=True)[:, 0]
    drawn = order.gather(-1, torch.minimum(place, kept - 1)[:, None])[:, 0]
    return torch.where(drawing, drawn, logits.argmax(-1))


def _mixed(value: torch.Tensor) -> torch.Tensor:
    value = (value ^ _shifted(value, 30)) * _signed(_FIRST)
    value = (value ^ _shifted(value, 27)) * _signed(_SECOND)
    return value ^ _shifted(value, 31)


def _shifted(value: torch.Tensor, bits: int) -> torch.Tensor:
    """A logical shift to the right: torch's own keeps the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
