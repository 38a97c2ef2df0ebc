"""Pictures and films become rows as they come, in chunks that fit any relay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.test_patches import picture
from voice_omni.model_runner.interface import Chunk, Outcome, Work
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.image_stage import ImageRunner
from voice_omni.models.qwen3_omni.patches import PatchSettings, patchify
from voice_omni.models.qwen3_omni.vision_tower import VisionEncoder
from voice_omni.models.qwen3_omni.wire import FRAMES, MEDIUM, ROWS

SETTINGS = PatchSettings()


@pytest.fixture(scope="module")
def encoder(checkpoint: Checkpoint) -> VisionEncoder:
    return VisionEncoder(checkpoint, "cpu", torch.float32)


@pytest.fixture
def runner(encoder: VisionEncoder) -> ImageRunner:
    return ImageRunner(encoder, SETTINGS)


def frames(height: int, width: int, count: int = 1) -> np.ndarray:
    """uint8 ``[count, height, width, 3]``, as preprocessing sends them."""
    return np.stack([np.asarray(picture(height, width, seed)) for seed in range(count)])


def chunk(medium: int, pixels: np.ndarray) -> Chunk:
    return Chunk("preprocess", {FRAMES: pixels, MEDIUM: medium})


def work(*chunks: Chunk, ended: bool = False) -> Work[None]:
    return Work("r", None, chunks, ended)


def rows(outcome: Outcome, medium: int, part: str) -> np.ndarray:
    """All rows of a medium: ``seen`` ``[n, width]`` or ``deepstack`` ``[layers, n, width]``."""
    sent = [emit.data[ROWS][part] for emit in outcome.emits if emit.data[ROWS]["medium"] == medium]
    return np.concatenate(sent, axis=-2)


def encoded(encoder: VisionEncoder, pixels: np.ndarray) -> Any:
    patches = patchify([picture(*pixels.shape[1:3], seed) for seed in range(len(pixels))], SETTINGS)
    return encoder.encode([patches])[0]


def test_a_picture_becomes_the_towers_rows(runner: ImageRunner, encoder: VisionEncoder) -> None:
    pixels = frames(64, 96)
    [outcome] = runner.run([work(chunk(0, pixels))])
    expected = encoded(encoder, pixels)
    assert distance(rows(outcome, 0, "seen"), expected.rows) < TOLERANCE
    assert distance(rows(outcome, 0, "deepstack"), torch.stack(expected.deepstack)) < TOLERANCE
    assert outcome.result is None, "more pictures may come"


def test_a_large_picture_is_sent_in_parts_in_order(runner: ImageRunner, encoder: VisionEncoder) -> None:
    pixels = frames(480, 640)
    [outcome] = runner.run([work(chunk(3, pixels))])
    assert [len(emit.data[ROWS]["seen"]) for emit in outcome.emits] == [128, 128, 44]
    assert {emit.data[ROWS]["deepstack"].shape[1] for emit in outcome.emits} == {128, 44}
    assert distance(rows(outcome, 3, "seen"), encoded(encoder, pixels).rows) < TOLERANCE


def test_a_pair_of_frames_is_one_grid(runner: ImageRunner, encoder: VisionEncoder) -> None:
    pixels = frames(64, 64, 2)
    [outcome] = runner.run([work(chunk(1, pixels))])
    assert distance(rows(outcome, 1, "seen"), encoded(encoder, pixels).rows) < TOLERANCE
    assert len(rows(outcome, 1, "seen")) == len(rows(runner.run([work(chunk(1, pixels[:1]))])[0], 1, "seen"))


def test_each_request_of_a_batch_gets_its_own_pictures(runner: ImageRunner, encoder: VisionEncoder) -> None:
    small, wide, film = frames(64, 64), frames(64, 128), frames(96, 64, 2)
    first, nothing, last = runner.run([work(chunk(0, small), chunk(1, film)), work(), work(chunk(0, wide), ended=True)])
    assert nothing.emits == []
    for outcome, medium, pixels in ((first, 0, small), (first, 1, film), (last, 0, wide)):
        assert distance(rows(outcome, medium, "seen"), encoded(encoder, pixels).rows) < TOLERANCE
    assert (first.result, nothing.result, last.result) == (None, None, {})


def test_a_request_without_pictures_ends_with_nothing(runner: ImageRunner) -> None:
    [outcome] = runner.run([work(ended=True)])
    assert (outcome.emits, outcome.result) == ([], {})


def test_the_cost_is_in_megapixels(runner: ImageRunner) -> None:
    assert runner.cost(work(chunk(0, frames(500, 1000, 2)), chunk(1, frames(500, 1000)))) == 1.5
    assert runner.cost(work(ended=True)) == 0
