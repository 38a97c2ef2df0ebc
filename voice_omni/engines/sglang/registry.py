"""Makes SGLang know the models of this project."""

from __future__ import annotations

from typing import Final

from sglang.srt.configs.model_config import multimodal_model_archs
from sglang.srt.models.registry import ModelRegistry

from voice_omni.engines.sglang.models.qwen3_omni_talker import EntryClass

_PACKAGE: Final = "voice_omni.engines.sglang.models"


def register() -> None:
    """May be called more than once."""
    ModelRegistry.register(_PACKAGE, overwrite=True, strict=True)
    # Prompts of embedding rows are what SGLang calls multimodal.
    if EntryClass.__name__ not in multimodal_model_archs:
        multimodal_model_archs.append(EntryClass.__name__)
