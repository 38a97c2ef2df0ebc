"""Placeholders and rotary positions are those of the published processor and model."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import Qwen3OmniMoeProcessor

from voice_omni.models.qwen3_omni.audio_tower import row_count
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.patches import Grid
from voice_omni.models.qwen3_omni.placeholders import Film, Medium, Picture, Placeholders, Sound
from voice_omni.proto.errors import OmniError

AUDIO, IMAGE, VIDEO = 490, 491, 492
AUDIO_START, AUDIO_END, VISION_START, VISION_END = 493, 494, 495, 496


@pytest.fixture(scope="module")
def placeholders(checkpoint: Checkpoint) -> Placeholders:
    return Placeholders(checkpoint.config.thinker)


def turn(medium: Medium | int) -> list[int]:
    """A medium as a template writes it; a number is so many text tokens."""
    match medium:
        case Sound():
            return [AUDIO_START, AUDIO, AUDIO_END]
        case Picture():
            return [VISION_START, IMAGE, VISION_END]
        case Film():
            return [VISION_START, VIDEO, VISION_END]
        case _:
            return [7] * medium


def film_seconds(rows: int | None) -> int:
    """Mel frames of a sound with so many rows."""
    return 0 if rows is None else next(frames for frames in range(1, 10_000) if row_count(frames) == rows)


grids = st.builds(lambda time, height, width: Grid(time, 2 * height, 2 * width), *[st.integers(1, 5)] * 3)
sounds = st.builds(Sound, st.integers(1, 60))
pictures = st.builds(lambda grid: Picture(Grid(1, grid.height, grid.width)), grids)
seconds = st.sampled_from([0.5, 1.0, 2.0, 2 / 3])
silent_films = st.builds(Film, grids, seconds)
films = st.builds(Film, grids, seconds, st.integers(1, 60))
texts = st.integers(0, 9)


def published_positions(published: Any, tokens: Sequence[int], media: Sequence[Medium]) -> np.ndarray:
    pictured = [medium.grid for medium in media if isinstance(medium, Picture)]
    filmed = [medium for medium in media if isinstance(medium, Film)]
    heard = [
        film_seconds(medium.rows if isinstance(medium, Sound) else medium.sound_rows)
        for medium in media
        if isinstance(medium, Sound) or (isinstance(medium, Film) and medium.sound_rows is not None)
    ]

    def sizes(grids: Sequence[Grid]) -> torch.Tensor | None:
        return torch.tensor([[grid.time, grid.height, grid.width] for grid in grids]) if grids else None

    ids = torch.tensor([list(tokens)])
    positions, _ = published.thinker.model.get_rope_index(
        ids,
        sizes(pictured),
        sizes([film.grid for film in filmed]),
        torch.ones_like(ids),
        any(film.sound_rows is not None for film in filmed),
        torch.tensor(heard),
        torch.tensor([film.grid_seconds for film in filmed]),
    )
    return positions[:, 0].numpy()


@given(st.lists(st.tuples(texts, st.one_of(sounds, pictures, silent_films)), max_size=4), st.integers(1, 5))
def test_positions_equal_the_published_ones(
    placeholders: Placeholders, published: Any, parts: list[tuple[int, Medium]], end: int
) -> None:
    media = [medium for _, medium in parts]
    tokens = placeholders.expand(
        [id for text, medium in parts for id in (*turn(text), *turn(medium))] + turn(end), media
    )
    np.testing.assert_allclose(
        placeholders.positions(tokens, media), published_positions(published, tokens, media), atol=1e-4
    )


@given(st.lists(st.tuples(texts, st.one_of(sounds, pictures, films)), max_size=4), st.integers(1, 5))
def test_so_do_those_of_films_with_their_sound(
    placeholders: Placeholders, published: Any, parts: list[tuple[int, Medium]], end: int
) -> None:
    media = [medium for _, medium in parts]
    tokens = placeholders.expand(
        [id for text, medium in parts for id in (*turn(text), *turn(medium))] + turn(end), media
    )
    np.testing.assert_allclose(
        placeholders.positions(tokens, media), published_positions(published, tokens, media), atol=1e-4
    )


@given(films)
def test_a_film_and_its_sound_take_turns_as_in_the_published_processor(placeholders: Placeholders, film: Film) -> None:
    processor = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=2),
        audio_bos_token="<",
        audio_eos_token=">",
        video_token="v",
        audio_token="a",
    )
    grid = film.grid
    expected = Qwen3OmniMoeProcessor.replace_video_with_audio_token(
        processor,
        {
            "video_grid_thw": np.array([[grid.time, grid.height, grid.width]]),
            "video_second_per_grid": [film.grid_seconds],
        },
        0,
        {"num_audio_tokens": [film.sound_rows]},
        0,
        position_id_per_seconds=13,
    )
    letters = {AUDIO_START: "<", AUDIO_END: ">", VIDEO: "v", AUDIO: "a"}
    assert "".join(letters[token] for token in placeholders.tokens(film)) == expected


def test_sound_and_text_count_on(placeholders: Placeholders) -> None:
    tokens = placeholders.expand([1, 2, AUDIO_START, AUDIO, AUDIO_END, 3], [Sound(13)])
    assert len(tokens) == 18
    assert placeholders.at(tokens).tolist() == list(range(3, 16))
    np.testing.assert_array_equal(placeholders.positions(tokens, [Sound(13)]), [list(range(18))] * 3)


def test_nothing_has_no_positions(placeholders: Placeholders) -> None:
    assert placeholders.positions([], []).shape == (3, 0)


@pytest.mark.parametrize("media", [[], [Sound(1), Sound(2)]])
def test_each_placeholder_needs_its_medium(placeholders: Placeholders, media: list[Medium]) -> None:
    with pytest.raises(OmniError, match=f"1 placeholders for {len(media)} media"):
        placeholders.expand([AUDIO], media)
