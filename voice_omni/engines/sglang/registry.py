"""Makes SGLang know the models and the attention of this project."""

from __future__ import annotations

from typing import Any, Final

from sglang.srt.configs.model_config import multimodal_model_archs
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.models.registry import ModelRegistry
from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES, add_attention_backend_choices

from voice_omni.engines.sglang.models.qwen3_omni_talker import EntryClass

_PACKAGE: Final = "voice_omni.engines.sglang.models"
ATTENTION: Final = "voice_omni"
"""What an ``attention_backend`` is called that has prefills of one CUDA graph."""


def register() -> None:
    """May be called more than once."""
    ModelRegistry.register(_PACKAGE, overwrite=True, strict=True)
    # Prompts of embedding rows are what SGLang calls multimodal.
    if EntryClass.__name__ not in multimodal_model_archs:
        multimodal_model_archs.append(EntryClass.__name__)
    ATTENTION_BACKENDS[ATTENTION] = _attention
    if ATTENTION not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices([ATTENTION])


def _attention(runner: Any) -> Any:
    # Triton cannot be imported everywhere.
    from voice_omni.engines.sglang.attention import PrefillGraphAttention

    return PrefillGraphAttention(runner)
