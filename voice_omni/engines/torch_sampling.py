"""Drawing a token from logits, reproducibly: what is drawn depends on the row, the step and the codebook alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from voice_omni.engines.interface import Sampling

_MASK: Final = 2**64 - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


def uniform(seed: int, step: int, codebook: int = 0) -> float:
    """A number in [0, 1) for one draw, by the finaliser of SplitMix64 (https://doi.org/10.1145/2714064.2660195).

    There is no state between draws, so neither the batch nor the way in which work is cut up can change one.
    """
    state = 0
    for part in (seed, step, codebook):
        state = _mixed((state ^ (part & _MASK)) + _GOLDEN)
    return (state >> 11) / 2**53


def _mixed(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def choose(logits: torch.Tensor, tokens: Sequence[int], sampling: Sampling, chance: float) -> int:
    """The next token from float32 ``[vocabulary]`` logits, as :class:`Sampling` says; ``tokens``: those before it.

    ``chance`` in [0, 1) picks one of the candidates, laid out by descending probability. Repetition penalty:
    https://arxiv.org/abs/1909.05858, nucleus sampling: https://arxiv.org/abs/1904.09751.
    """
    logits = _processed(logits, tokens, sampling)
    if sampling.temperature == 0.0:
        return int(logits.argmax())
    count = min(sampling.top_k, len(logits)) if sampling.top_k else len(logits)
    scores, candidates = (logits / sampling.temperature).topk(count)
    probabilities = torch.softmax(scores.double(), dim=-1)
    ends = probabilities.cumsum(-1)
    kept = int((ends - probabilities < sampling.top_p).sum())
    ends = ends[: max(kept, 1)]
    drawn = int(torch.searchsorted(ends, chance * float(ends[-1]), right=True))
    return int(candidates[min(drawn, len(ends) - 1)])


def _processed(logits: torch.Tensor, tokens: Sequence[int], sampling: Sampling) -> torch.Tensor:
    penalised = sampling.repetition_penalty != 1.0 and len(tokens) > 0
    if not penalised and not sampling.suppress:
        return logits
    logits = logits.clone()
    if penalised:
        seen = torch.tensor(sorted(set(tokens)))
        scores = logits[seen]
        penalty = sampling.repetition_penalty
        logits[seen] = torch.where(scores < 0, scores * penalty, scores / penalty)
    if sampling.suppress:
        logits[torch.tensor(sorted(sampling.suppress))] = -torch.inf
    return logits
