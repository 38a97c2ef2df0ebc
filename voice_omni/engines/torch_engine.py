"""Rows on a transformers causal language model: the reference that other engines are compared with.

Synchronous: :meth:`TorchEngine.step` computes one token of each row that may run. Each row has a KV cache and a random
generator of its own and is computed by itself, so that what runs beside it never changes its tokens, in no rounding
either. The weights' own precision is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from voice_omni.engines.interface import FinishReason, Row, RowOutput, Sampling


@dataclass(slots=True)
class _Running:
    """``pending``: tokens that the model has not seen yet, the whole prompt at first."""

    row: Row
    pending: list[int]
    generator: torch.Generator
    cache: DynamicCache = field(default_factory=DynamicCache)
    tokens: list[int] = field(default_factory=list)
    paused: bool = False
    removed: bool = False


class TorchEngine:
    """A synchronous :class:`~voice_omni.engines.interface.Engine` over e.g. a ``LlamaForCausalLM``."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model.eval()
        self._rows: dict[str, _Running] = {}

    def start(self, wake: Callable[[], None]) -> None:
        """Nothing happens outside :meth:`step`, so ``wake`` is never called."""

    def add(self, row: Row) -> None:
        generator = torch.Generator().manual_seed(row.sampling.seed)
        self._rows[row.row_id] = _Running(row, list(row.prompt), generator)

    def pause(self, row_id: str) -> None:
        if running := self._rows.get(row_id):
            running.paused = True

    def resume(self, row_id: str) -> None:
        if running := self._rows.get(row_id):
            running.paused = False

    def remove(self, row_id: str) -> None:
        if running := self._rows.get(row_id):
            running.removed = True

    @property
    def busy(self) -> bool:
        return any(running.removed or not running.paused for running in self._rows.values())

    def step(self) -> list[RowOutput]:
        outputs = []
        for running in list(self._rows.values()):
            if running.removed:
                outputs.append(RowOutput(running.row.row_id, [], "removed"))
            elif not running.paused:
                outputs.append(self._advance(running))
        for output in outputs:
            if output.finish is not None:
                del self._rows[output.row_id]
        return outputs

    def stop(self) -> None:
        self._rows.clear()

    def stats(self) -> dict[str, int]:
        return {"rows": len(self._rows)}

    def _advance(self, running: _Running) -> RowOutput:
        row = running.row
        token = choose(self._logits(running), running.tokens, row.sampling, running.generator)
        if token in row.stop:
            return RowOutput(row.row_id, [], "stop")
        running.tokens.append(token)
        running.pending = [token]
        finish: FinishReason | None = "length" if len(running.tokens) == row.max_new_tokens else None
        return RowOutput(row.row_id, [token], finish)

    @torch.inference_mode()
    def _logits(self, running: _Running) -> torch.Tensor:
        device = self._model.device
        output: Any = self._model(
            input_ids=torch.tensor([running.pending], device=device),
            cache=running.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[0, -1].float().cpu()
        return logits


def choose(logits: torch.Tensor, tokens: list[int], sampling: Sampling, generator: torch.Generator) -> int:
    """Draw the next token from float32 ``[vocabulary]`` logits.

    In this order: the repetition penalty on ``tokens`` (https://arxiv.org/abs/1909.05858), the ``top_k`` likeliest (0:
    all), temperature, nucleus sampling with ``top_p`` (https://arxiv.org/abs/1904.09751).
    """
    if sampling.repetition_penalty != 1.0 and tokens:
        seen = torch.tensor(sorted(set(tokens)))
        scores = logits[seen]
        logits = logits.clone()
        logits[seen] = torch.where(
            scores < 0, scores * sampling.repetition_penalty, scores / sampling.repetition_penalty
        )
    if sampling.temperature == 0.0:
        return int(logits.argmax())
    count = min(sampling.top_k, len(logits)) if sampling.top_k else len(logits)
    scores, candidates = logits.topk(count)
    probabilities = torch.softmax(scores / sampling.temperature, dim=-1)
    before = probabilities.cumsum(-1) - probabilities
    probabilities[before >= sampling.top_p] = 0.0
    return int(candidates[torch.multinomial(probabilities, 1, generator=generator)])
