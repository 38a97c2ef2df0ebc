"""What :class:`~voice_omni.engines.torch_engine.TorchEngine` needs of a model, and plain language models as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers import DynamicCache, PreTrainedModel

from voice_omni.engines.interface import Piece, Sampling
from voice_omni.proto.errors import OmniError

Chance = Callable[[int], float]
"""The number in [0, 1) that decides the draw from a codebook; the sampled token's own is codebook 0."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Positions on their way through a backbone: ``rows`` ``[n, width]`` at rotary ``positions``, float32 ``[3, n]``.

    ``at``: int64 ``[m]``, those that were given as rows; ``deepstack`` ``[layers, m, width]`` is added there behind the
    first layers.
    """

    rows: torch.Tensor
    positions: torch.Tensor
    at: torch.Tensor
    deepstack: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def behind(self, start: int) -> Inputs:
        """The positions from ``start`` on."""
        chosen = self.at >= start
        deepstack = None if self.deepstack is None else self.deepstack[:, chosen]
        return Inputs(self.rows[start:], self.positions[:, start:], self.at[chosen] - start, deepstack)


@dataclass(frozen=True, slots=True)
class Computed:
    """``last`` ``[width]``: the last position's hidden row, after the final norm. ``kept`` ``[m, width]``: an inner
    layer's rows at ``Inputs.at``, of a model that reports them."""

    last: torch.Tensor
    kept: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a sampled token became: ``row`` ``[width]`` is the next step's input, ``frame`` all codes of a frame."""

    row: torch.Tensor
    frame: list[int] | None = None


class TorchModel(Protocol):
    """A backbone with its embeddings and heads, called for one row at a time."""

    device: torch.device
    dtype: torch.dtype
    width: int

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 ``[n]`` -> ``[n, width]``."""
        ...

    def forward(self, inputs: Inputs, cache: DynamicCache) -> Computed:
        """Compute these positions, behind those of the cache."""
        ...

    def logits(self, last: torch.Tensor) -> torch.Tensor:
        """``[width]`` -> ``[vocabulary]``."""
        ...

    def write(self, token: int, last: torch.Tensor, sampling: Sampling, chance: Chance) -> Written:
        """``last``: the hidden row that ``token`` was drawn from, as ``sampling`` says."""
        ...


class LanguageModel:
    """A transformers causal language model with one-dimensional positions, e.g. a ``LlamaForCausalLM``."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._embedding: Any = model.get_input_embeddings()
        self._decoder: Any = model.eval().get_decoder()
        self._head: Any = model.get_output_embeddings()
        self.device: torch.device = self._embedding.weight.device
        self.dtype: torch.dtype = self._embedding.weight.dtype
        self.width: int = self._embedding.weight.shape[1]

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self._embedding(tokens)
        return rows

    def forward(self, inputs: Inputs, cache: DynamicCache) -> Computed:
        output: Any = self._decoder(
            inputs_embeds=inputs.rows[None],
            position_ids=inputs.positions[:1].long(),
            cache=cache,
            use_cache=True,
        )
        return Computed(output.last_hidden_state[0, -1])

    def logits(self, last: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(last)
        return logits

    def write(self, token: int, last: torch.Tensor, sampling: Sampling, chance: Chance) -> Written:
        return Written(self.embed(torch.tensor([token], device=self.device))[0])


def inputs_of(model: TorchModel, piece: Piece, start: float) -> Inputs:
    """A piece as a model reads it; ``start``: its first rotary position where it names none.

    Raises :class:`OmniError` ``invalid_value`` for a piece whose parts do not fit together.
    """
    count = len(piece)
    at = torch.arange(count if piece.rows is not None else 0) if piece.at is None else torch.tensor(piece.at)
    _check(model, piece, at)
    at = at.to(model.device)
    rows = torch.empty((count, model.width), dtype=model.dtype, device=model.device)
    plain = torch.ones(count, dtype=torch.bool, device=model.device)
    plain[at] = False
    if plain.any():
        rows[plain] = model.embed(torch.tensor(piece.tokens, device=model.device)[plain])
    if piece.rows is not None:
        rows[at] = torch.tensor(piece.rows).to(model.device, model.dtype)
    if piece.positions is None:
        positions = (start + torch.arange(count, dtype=torch.float32)).expand(3, -1)
    else:
        positions = torch.tensor(piece.positions)
    deepstack = None if piece.deepstack is None else torch.tensor(piece.deepstack).to(model.device, model.dtype)
    return Inputs(rows, positions.to(model.device), at, deepstack)


def _check(model: TorchModel, piece: Piece, at: torch.Tensor) -> None:
    count, given = len(piece), len(at)
    faults = {
        "rows": piece.rows is not None and piece.rows.shape != (given, model.width),
        "at": piece.rows is None if given else False,
        "deepstack": piece.deepstack is not None and piece.deepstack.shape[1:] != (given, model.width),
        "positions": piece.positions is not None and piece.positions.shape != (3, count),
    }
    if (given and not 0 <= int(at.min()) <= int(at.max()) < count) or any(faults.values()):
        wrong = [name for name, fault in faults.items() if fault] or ["at"]
        raise OmniError("invalid_value", f"a piece of {count} positions with {' and '.join(wrong)} that do not fit it")
