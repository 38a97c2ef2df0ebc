"""The talker of a checkpoint as a folder of its own, for an engine that loads whole folders.

Nothing is copied: the folder has a ``config.json`` in the engine's terms and links to the files that hold the talker.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from voice_omni.engines.interface import Sampling
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code_predictor import residual_sampling
from voice_omni.models.qwen3_omni.config import Rope, TalkerConfig
from voice_omni.models.qwen3_omni.layout import Part
from voice_omni.models.qwen3_omni.talker_prompt import suppressed
from voice_omni.proto.errors import OmniError

_ARCHITECTURE: Final = "VoiceOmniQwen3OmniTalker"
_TYPE: Final = "qwen3_moe"
"""The engine reads the configuration as one of this type, which has every field that the backbone needs."""


def export_talker(checkpoint: Checkpoint, folder: Path, *, ignore_eos: bool = False) -> Path:
    """Fill ``folder``, which exists and is empty. Returns it. ``ignore_eos``: the end of speech is never drawn.

    Raises :class:`OmniError` ``unsupported_model`` for a checkpoint without a talker.
    """
    talker = checkpoint.config.talker
    if talker is None:
        raise OmniError("unsupported_model", f"{checkpoint.folder} has no talker", param="talker_config")
    dtype = str(checkpoint.dtype).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(talker_config(talker, dtype, ignore_eos=ignore_eos)))
    for file in checkpoint.files(Part.TALKER) | checkpoint.files(Part.CODE_PREDICTOR):
        (folder / file.name).symlink_to(file.resolve())
    return folder


def talker_config(talker: TalkerConfig, dtype: str, *, ignore_eos: bool = False) -> dict[str, Any]:
    """``config.json`` of the folder. ``dtype``: of the weights, as torch names it."""
    text, predictor = _fields(talker.text), _fields(talker.code_predictor)
    drawn = residual_sampling(Sampling(temperature=1.0))
    return {
        **text,
        "architectures": [_ARCHITECTURE],
        "model_type": _TYPE,
        "dtype": dtype,
        "intermediate_size": talker.text.moe_intermediate_size,
        "eos_token_id": talker.codec_eos_token_id,
        "rope_parameters": _rope(talker.text.rope),
        "code_predictor_config": {**predictor, "rope_parameters": _rope(talker.code_predictor.rope)},
        "residual_sampling": {"top_k": drawn.top_k, "top_p": drawn.top_p},
        "suppressed_codes": sorted(suppressed(talker, ignore_eos=ignore_eos)),
    }


def _fields(config: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(config)
    del fields["rope"]
    return fields


def _rope(rope: Rope) -> dict[str, Any]:
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": rope.theta}
    if rope.mrope_section is not None:
        parameters |= {"mrope_section": list(rope.mrope_section), "mrope_interleaved": True}
    return parameters
