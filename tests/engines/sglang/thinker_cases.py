"""What the published Qwen3-Omni says to prompts of every kind, as a file for the environment that has SGLang.

The file ``cases.npz`` in the checkpoint's folder has ``NAME/FIELD`` for each of the cases and fields below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from transformers import Qwen3OmniMoeForConditionalGeneration

from tests.models.qwen3_omni.oracle import Case, Oracle, Prompts
from voice_omni.models.qwen3_omni.config import OmniConfig, load_config

FILE: Final = "cases.npz"
TOKENS: Final = 12
"""Of an answer at most."""


def write(folder: Path) -> None:
    """``tokens``, ``positions``, ``rows``, ``at``, ``deepstack``: the prompt as a piece, without what it lacks;
    ``said``: the greedy answer; ``hidden``: the rows of the layer that the talker reads, at ``at``."""
    config = load_config(folder)
    oracle = Oracle(Qwen3OmniMoeForConditionalGeneration.from_pretrained(folder).eval(), config)
    fields: dict[str, Any] = {}
    with torch.inference_mode():
        for name, case in _cases(config).items():
            piece = oracle.piece(case)
            said, hidden = _answer(oracle, case)
            fields[f"{name}/said"] = np.array(said)
            if piece.at is not None:
                fields[f"{name}/hidden"] = hidden[piece.at].numpy()
            for part in ("tokens", "positions", "rows", "at", "deepstack"):
                if (value := getattr(piece, part)) is not None:
                    fields[f"{name}/{part}"] = np.asarray(value)
    np.savez(folder / FILE, **fields)


def _cases(config: OmniConfig) -> dict[str, Case]:
    prompts = Prompts(config)
    return {
        "text": prompts.text(),
        "sound": prompts.audio(237),
        "long sound": prompts.audio(900),
        "turns": prompts.two_sounds(130, 60),
        "picture": prompts.image(),
        "film": prompts.film(),
        "picture and film": prompts.film(image_too=True),
    }


def _answer(oracle: Oracle, case: Case) -> tuple[list[int], torch.Tensor]:
    """The tokens, without the one that ended them, and the inner layer's row of each position of the prompt."""
    config = oracle.config
    result = oracle.model.thinker.generate(
        torch.tensor([case.tokens]),
        max_new_tokens=TOKENS,
        do_sample=False,
        eos_token_id=config.im_end_token_id,
        output_hidden_states=True,
        return_dict_in_generate=True,
        **case.media,
    )
    said = [token for token in result.sequences[0, len(case.tokens) :].tolist() if token != config.im_end_token_id]
    assert config.talker is not None
    hidden: torch.Tensor = result.hidden_states[0][config.talker.accept_hidden_layer][0]
    return said, hidden
