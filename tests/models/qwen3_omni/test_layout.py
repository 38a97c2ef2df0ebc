"""The map of the released checkpoint is complete: every tensor belongs to one stage, and none is missing."""

from __future__ import annotations

import copy
from collections import Counter
from math import prod

import pytest
import torch
from torch import nn
from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration
from transformers.core_model_loading import revert_weight_conversion

from tests.support.released_qwen3_omni import CONFIG, PARAMETERS
from voice_omni.models.qwen3_omni.audio_tower import AudioTower
from voice_omni.models.qwen3_omni.code2wav import Code2Wav
from voice_omni.models.qwen3_omni.config import parse_config
from voice_omni.models.qwen3_omni.layout import THINKER_EMBEDDING, Part, Shape, layout, part_of
from voice_omni.models.qwen3_omni.vision_tower import VisionTower

RELEASED = parse_config(CONFIG)


def ours() -> dict[str, Shape]:
    return {name: shape for part in Part for name, shape in layout(RELEASED, part).items()}


@pytest.fixture(scope="module")
def published() -> dict[str, Shape]:
    """What the published implementation would save of the full-size model."""
    with torch.device("meta"):
        model = Qwen3OmniMoeForConditionalGeneration(Qwen3OmniMoeConfig(**copy.deepcopy(CONFIG)))
    saved = revert_weight_conversion(model, model.state_dict())
    return {name: tuple(tensor.shape) for name, tensor in saved.items()}


def test_every_tensor_of_the_full_size_model_has_its_name_and_shape(published: dict[str, Shape]) -> None:
    mapped = ours()
    assert mapped.keys() - published.keys() == set()
    assert published.keys() - mapped.keys() == set()
    assert {name: shape for name, shape in mapped.items() if published[name] != shape} == {}


def test_they_are_all_the_parameters_there_are() -> None:
    assert sum(map(prod, ours().values())) == pytest.approx(PARAMETERS, rel=2e-4)


def test_each_tensor_belongs_to_exactly_one_part() -> None:
    owners = Counter(name for part in Part for name in layout(RELEASED, part))
    assert set(owners.values()) == {1}
    assert all(part_of(name) is part for part in Part for name in layout(RELEASED, part))
    assert part_of(THINKER_EMBEDDING) is Part.THINKER
    assert part_of("something.else") is None


@pytest.mark.parametrize(
    ("part", "build"),
    [
        (Part.AUDIO_ENCODER, lambda: AudioTower(RELEASED.thinker.audio)),
        (Part.IMAGE_ENCODER, lambda: VisionTower(RELEASED.thinker.vision)),
        (Part.CODE2WAV, lambda: Code2Wav(RELEASED.code2wav)),
    ],
)
def test_the_full_size_modules_have_their_parts_tensors(part: Part, build: type[nn.Module]) -> None:
    with torch.device("meta"):
        module = build()
    named = {part.value + name: tuple(weight.shape) for name, weight in module.named_parameters()}
    assert named == layout(RELEASED, part)
    assert not list(module.buffers())


def test_a_model_that_only_writes_has_fewer_parts() -> None:
    config = parse_config(CONFIG | {"enable_audio_output": False})
    assert not layout(config, Part.TALKER)
    assert not layout(config, Part.CODE_PREDICTOR)
    assert not layout(config, Part.CODE2WAV)
