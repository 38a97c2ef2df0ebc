"""The vision tower's rows and deepstack rows are those of the published tower."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.test_patches import picture
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.patches import PatchSettings, patchify
from voice_omni.models.qwen3_omni.vision_tower import VisionEncoder


@pytest.fixture(scope="module")
def encoder(checkpoint: Checkpoint) -> VisionEncoder:
    return VisionEncoder(checkpoint, "cpu", torch.float32)


@pytest.mark.parametrize(("height", "width", "frames"), [(64, 64, 1), (100, 150, 1), (33, 400, 1), (70, 150, 5)])
@torch.no_grad()
def test_it_equals_the_published_tower(
    encoder: VisionEncoder, published: Any, height: int, width: int, frames: int
) -> None:
    patches, grid = patchify([picture(height, width, seed) for seed in range(frames)], PatchSettings())
    size = torch.tensor([[grid.time, grid.height, grid.width]])
    expected = published.thinker.model.visual(torch.from_numpy(patches), grid_thw=size)
    (seen,) = encoder.encode([(patches, grid)])
    assert len(seen.rows) == grid.rows(merge=2)
    assert distance(seen.rows, expected.pooler_output) < TOLERANCE
    assert len(seen.deepstack) == 3
    for layer, expected_layer in zip(seen.deepstack, expected.deepstack_features, strict=True):
        assert distance(layer, expected_layer) < TOLERANCE


def test_pictures_do_not_see_each_other(encoder: VisionEncoder) -> None:
    pictures = [patchify([picture(size, 96, size)], PatchSettings()) for size in (64, 128)]
    together = encoder.encode(pictures)
    for one, seen in zip(pictures, together, strict=True):
        (alone,) = encoder.encode([one])
        assert distance(seen.rows, alone.rows) < 1e-5
