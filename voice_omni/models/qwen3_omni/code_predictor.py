"""The frame head: from the talker's hidden row and the frame's first code to the codes of the other books.

A small dense decoder reads the hidden row and the first code's row, and then each code that it has drawn, through a
table and a head of each book's own. Its KV cache lives for one frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn
from transformers import DynamicCache

from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_model import Chance
from voice_omni.engines.torch_sampling import choose

_SAMPLED: Final = Sampling(temperature=1.0, top_k=50, top_p=0.8)
_GREEDY: Final = Sampling()


def residual_sampling(talker: Sampling) -> Sampling:
    """How the residual codes are drawn: greedily if the first codes are, else always in the same way."""
    return _SAMPLED if talker.temperature > 0 else _GREEDY


class CodePredictor:
    """``decoder``: transformers' module, whose ``codec_embedding`` has one table for each residual book; ``heads``:
    likewise."""

    def __init__(self, decoder: Any, heads: nn.ModuleList) -> None:
        self._decoder = decoder
        self._tables = decoder.codec_embedding
        self._heads = heads

    def complete(
        self, last: torch.Tensor, first: torch.Tensor, draw: Callable[[int, torch.Tensor], int]
    ) -> tuple[list[int], torch.Tensor]:
        """The residual codes, and the sum ``[width]`` of the rows of all the frame's codes.

        ``last`` ``[width]``: the talker's hidden row, after its final norm, that the first code was drawn from;
        ``first`` ``[width]``: that code's row. ``draw``: the book, from 1, and its ``[vocabulary]`` logits -> the code.
        """
        cache = DynamicCache()
        inputs = torch.stack((last, first))
        codes: list[int] = []
        rows = [first]
        for number, (table, head) in enumerate(zip(self._tables, self._heads, strict=True)):
            output: Any = self._decoder(inputs_embeds=inputs[None], cache=cache, use_cache=True)
            code = draw(number + 1, head(output.last_hidden_state[0, -1]))
            inputs = table.weight[code : code + 1]
            codes.append(code)
            rows.append(inputs[0])
        return codes, torch.stack(rows).sum(0)


def drawing(talker: Sampling, chance: Chance) -> Callable[[int, torch.Tensor], int]:
    """The draws of one frame, for :meth:`CodePredictor.complete`."""
    sampling = residual_sampling(talker)
    return lambda book, logits: choose(logits.float().cpu(), (), sampling, chance(book))
