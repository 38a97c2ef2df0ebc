"""One tiny checkpoint for all, and the published implementation with the same weights to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3OmniMoeForConditionalGeneration

from tests.models.qwen3_omni.generating import World
from tests.models.qwen3_omni.talking import edited
from tests.support.silero import silero
from tests.support.tiny_qwen3_omni import build
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint

__all__ = ["silero"]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """So small matrices are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("tiny_qwen3_omni"))


@pytest.fixture(scope="session")
def talkative(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same checkpoint, but its speech does not end by itself: that is no likelier than an unlikely code."""
    config = Checkpoint(tiny).config.talker
    assert config is not None
    row = torch.zeros(config.text.hidden_size)
    folder = tmp_path_factory.mktemp("talkative") / "checkpoint"
    return edited(tiny, folder, {"talker.codec_head.weight": (config.codec_eos_token_id, row)})


@pytest.fixture(scope="session")
def checkpoint(tiny: Path) -> Checkpoint:
    return Checkpoint(tiny)


@pytest.fixture(scope="session")
def published(tiny: Path) -> Any:
    return Qwen3OmniMoeForConditionalGeneration.from_pretrained(tiny).eval()


@pytest.fixture(scope="session")
def world(checkpoint: Checkpoint, published: Any) -> World:
    return World.of(checkpoint, published)
