"""The thinker as the torch engine sees it: a mixture-of-experts decoder that reads media rows among its tokens.

Beside the tokens it gives what the talker needs of the prompt: the output rows of decoder layer
``accept_hidden_layer``, before anything is added to them, at the positions that were given as rows.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_model import Chance, Computed, Inputs, Written
from voice_omni.models.qwen3_omni.backbones import ThinkerModules
from voice_omni.proto.errors import OmniError


class Thinker:
    """A :class:`~voice_omni.engines.torch_model.TorchModel`; ``Computed.kept`` is None where there is no talker."""

    def __init__(self, modules: ThinkerModules) -> None:
        self._decoder = modules.decoder
        self._head = modules.head
        self._inner: torch.Tensor | None = None
        weight = modules.head.weight
        self.device: torch.device = weight.device
        self.dtype: torch.dtype = weight.dtype
        self.width: int = weight.shape[1]
        if talker := modules.config.talker:
            layers = modules.decoder.layers
            if not 0 < talker.accept_hidden_layer < len(layers):
                raise OmniError(
                    "unsupported_model",
                    f"the talker reads layer {talker.accept_hidden_layer} of {len(layers)}",
                    param="talker_config.accept_hidden_layer",
                )
            layers[talker.accept_hidden_layer - 1].register_forward_hook(self._keep)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self._decoder.embed_tokens(tokens)
        return rows

    def forward(self, inputs: Inputs, cache: DynamicCache) -> Computed:
        deepstack: dict[str, Any] = {}
        if inputs.deepstack is not None and len(inputs.at):
            places = torch.zeros((1, len(inputs)), dtype=torch.bool, device=self.device)
            places[0, inputs.at] = True
            deepstack = {"visual_pos_masks": places, "deepstack_visual_embeds": list(inputs.deepstack)}
        output: Any = self._decoder(
            inputs_embeds=inputs.rows[None],
            position_ids=inputs.positions[:, None],
            cache=cache,
            use_cache=True,
            **deepstack,
        )
        kept = None if self._inner is None else self._inner[0, inputs.at]
        return Computed(output.last_hidden_state[0, -1], kept)

    def logits(self, last: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(last)
        return logits

    def write(self, token: int, last: torch.Tensor, sampling: Sampling, chance: Chance) -> Written:
        return Written(self.embed(torch.tensor([token], device=self.device))[0])

    def _keep(self, module: object, args: object, output: torch.Tensor) -> None:
        self._inner = output
