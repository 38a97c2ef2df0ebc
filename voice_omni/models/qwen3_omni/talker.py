"""The talker as the torch engine sees it: a mixture-of-experts decoder over codec frames, with the code predictor as
its frame head."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_model import Chance, Computed, Inputs, Written
from voice_omni.models.qwen3_omni.backbones import TalkerModules
from voice_omni.models.qwen3_omni.code_predictor import CodePredictor, drawing


class Talker:
    """A :class:`~voice_omni.engines.torch_model.TorchModel` whose tokens are first codes.

    The input of a decode step is the sum of the rows of the frame's codes; the engine adds the text row to it.
    """

    def __init__(self, modules: TalkerModules) -> None:
        self._decoder = modules.decoder
        self._head = modules.head
        self._predictor = CodePredictor(modules.predictor, modules.predictor_heads)
        weight = modules.head.weight
        self.device: torch.device = weight.device
        self.dtype: torch.dtype = weight.dtype
        self.width: int = weight.shape[1]

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self._decoder.codec_embedding(tokens)
        return rows

    def forward(self, inputs: Inputs, cache: DynamicCache) -> Computed:
        output: Any = self._decoder(
            inputs_embeds=inputs.rows[None], position_ids=inputs.positions[:, None], cache=cache, use_cache=True
        )
        return Computed(output.last_hidden_state[0, -1])

    def logits(self, last: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(last)
        return logits

    def write(self, token: int, last: torch.Tensor, sampling: Sampling, chance: Chance) -> Written:
        first = self.embed(torch.tensor([token], device=self.device))[0]
        residual, row = self._predictor.complete(last, first, drawing(sampling, chance))
        return Written(row, [token, *residual])
