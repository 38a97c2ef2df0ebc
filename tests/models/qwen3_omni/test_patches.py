"""Pictures become the patches of the published processor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.patches import Grid, PatchSettings, fitted_size, patchify
from voice_omni.proto.errors import OmniError


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(("height", "width"), [(100, 150), (33, 400), (20, 20), (1500, 1000), (64, 64)])
def test_a_picture_equals_the_published_one(height: int, width: int) -> None:
    processor = Qwen2VLImageProcessorPil(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    expected = processor(picture(height, width), return_tensors="np")
    patches, grid = patchify([picture(height, width)], PatchSettings())
    assert [[grid.time, grid.height, grid.width]] == expected["image_grid_thw"].tolist()
    np.testing.assert_allclose(patches, expected["pixel_values"], atol=1e-6)


def test_a_film_of_one_picture_is_that_picture_again_and_again() -> None:
    still, _ = patchify([picture(64, 96)], PatchSettings())
    film, grid = patchify([picture(64, 96)] * 5, PatchSettings())
    assert grid == Grid(3, 4, 6)
    assert film.shape == (grid.patches, 3 * 2 * 16 * 16)
    np.testing.assert_array_equal(film, np.concatenate([still] * 3))


def test_a_pair_of_frames_shares_its_patches() -> None:
    first, second = picture(64, 64, 1), picture(64, 64, 2)
    pair, _ = patchify([first, second], PatchSettings())
    in_patch = pair.reshape(16, 3, 2, 16, 16)
    for index, frame in enumerate((first, second)):
        alone, _ = patchify([frame], PatchSettings())
        np.testing.assert_array_equal(in_patch[:, :, index], alone.reshape(16, 3, 2, 16, 16)[:, :, 0])


def test_sizes_are_kept_within_bounds() -> None:
    settings = PatchSettings(min_pixels=128 * 128, max_pixels=512 * 512)
    for height, width in ((7, 9), (60, 11_000), (3000, 2000), (333, 333)):
        fitted_height, fitted_width = fitted_size(height, width, settings)
        assert fitted_height % 32 == fitted_width % 32 == 0
        assert settings.min_pixels <= fitted_height * fitted_width <= settings.max_pixels


def test_a_picture_that_is_almost_a_line_is_refused() -> None:
    with pytest.raises(OmniError, match="too narrow") as caught:
        fitted_size(1, 201, PatchSettings())
    assert caught.value.code == "invalid_value"


def test_the_checkpoint_says_how_large_pictures_may_be(tmp_path: Path, checkpoint: Checkpoint) -> None:
    vision = checkpoint.config.thinker.vision
    assert PatchSettings.load(tmp_path, vision) == PatchSettings()
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({"min_pixels": 3136, "max_pixels": 12845056, "image_mean": [0.1, 0.2, 0.3]}))
    loaded = PatchSettings.load(tmp_path, vision)
    assert (loaded.min_pixels, loaded.max_pixels, loaded.mean) == (3136, 12845056, (0.1, 0.2, 0.3))
    file.write_text(json.dumps({"size": {"shortest_edge": 1024, "longest_edge": 4096}}))
    assert PatchSettings.load(tmp_path, vision).max_pixels == 4096
    file.write_text(json.dumps({"image_mean": [0.1]}))
    with pytest.raises(OmniError, match="preprocessor_config"):
        PatchSettings.load(tmp_path, vision)
