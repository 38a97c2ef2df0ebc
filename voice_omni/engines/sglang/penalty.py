"""The repetition penalty of a row that goes on in a new request.

SGLang penalises what a request itself has generated. What the row said in earlier requests is part of this one's
prompt, and is penalised here.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor


class SaidBefore(CustomLogitProcessor):  # type: ignore[misc]
    """Applies ``penalty`` to the tokens ``said`` of its parameters, except those that the request has said again:
    SGLang has penalised these already. (https://arxiv.org/abs/1909.05858, section 4.1)"""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None) -> torch.Tensor:
        for row, params in zip(logits, custom_param_list or [], strict=True):
            tokens = sorted(set(params["said"]).difference(params["__req__"].output_ids))
            chosen = row[tokens]
            row[tokens] = torch.where(chosen < 0, chosen * params["penalty"], chosen / params["penalty"])
        return logits
