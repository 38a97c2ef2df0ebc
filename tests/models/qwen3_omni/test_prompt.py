"""A prompt holds what the thinker reads, whole or piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.patches import Grid
from voice_omni.models.qwen3_omni.placeholders import Film, Picture, Sound
from voice_omni.models.qwen3_omni.prompt import Features, PromptWriter

AUDIO, IMAGE, VIDEO = 490, 491, 492


@pytest.fixture(scope="module")
def writer(tiny: Path, checkpoint: Checkpoint) -> PromptWriter:
    return PromptWriter.load(tiny, checkpoint.config)


def user(text: str, **media: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **media}


def test_a_conversation_becomes_tokens(writer: PromptWriter) -> None:
    prompt = writer.write([user("Hi", audios=[None]), user("", images=[None])], [Sound(13), Picture(Grid(1, 4, 6))])
    assert prompt.tokens[:3] == [500, 506, 10]
    assert prompt.tokens[-3:] == [500, 507, 10]
    assert prompt.tokens.count(AUDIO) == 13
    assert prompt.tokens.count(IMAGE) == 6
    assert [prompt.tokens[at] for at in prompt.at] == [AUDIO] * 13 + [IMAGE] * 6
    assert prompt.positions.shape == (3, len(prompt.tokens))


def test_the_answer_s_positions_follow_the_largest(writer: PromptWriter, published: Any) -> None:
    """A film's last frame may reach further than the sound that outlasts it."""
    film = Film(Grid(1, 20, 20), 1.0, 3)
    prompt = writer.write([user("", videos=[None])], [film])
    ids = torch.tensor([prompt.tokens])
    _, delta = published.thinker.model.get_rope_index(
        ids, None, torch.tensor([[1, 20, 20]]), torch.ones_like(ids), True, torch.tensor([17]), torch.tensor([1.0])
    )
    assert prompt.next_position == len(prompt.tokens) + float(delta)
    assert writer.write([user("Hi")]).next_position == len(writer.write([user("Hi")]).tokens)


def test_rows_stand_in_the_placeholders_order(writer: PromptWriter) -> None:
    film = Film(Grid(2, 2, 2), 1.0, 15)
    media = [Sound(2), film, Picture(Grid(1, 2, 4))]
    heard, own, seen, shown = (np.full((count, 4), count, np.float32) for count in (2, 15, 2, 2))
    deep = np.ones((3, 2, 4), np.float32)
    rows, deepstack = writer.rows(
        media,
        [Features(sound=heard), Features(own, 10 * seen, 2 * deep), Features(rows=30 * shown, deepstack=3 * deep)],
    )
    assert deepstack is not None
    assert rows[:, 0].tolist() == [2, 2, 20, *[15] * 13, 20, 15, 15, 60, 60]
    assert deepstack[1, :, 0].tolist() == [0, 0, 2, *[0] * 13, 2, 0, 0, 3, 3]
    prompt = writer.write([user("", audios=[None]), user("", videos=[None]), user("", images=[None])], media)
    assert len(prompt.at) == len(rows)
    kinds = {AUDIO: "heard", VIDEO: "seen", IMAGE: "seen"}
    assert [kinds[prompt.tokens[at]] for at in prompt.at] == [
        "seen" if deep else "heard" for deep in deepstack[0, :, 0]
    ]


def test_only_sounds_have_no_deepstack(writer: PromptWriter) -> None:
    assert writer.rows([Sound(2)], [Features(sound=np.ones((2, 4), np.float32))])[1] is None
    assert len(writer.rows([], [])[0]) == 0


def test_a_sound_that_has_no_rows_yet_leaves_the_others_alone(writer: PromptWriter) -> None:
    seen = Features(rows=np.ones((2, 4), np.float32), deepstack=np.ones((3, 2, 4), np.float32))
    rows, deepstack = writer.rows([Picture(Grid(1, 2, 4)), Sound(0)], [seen, Features()])
    assert deepstack is not None
    assert (rows.shape, deepstack.shape) == ((2, 4), (3, 2, 4))


def test_pieces_are_the_prompt(writer: PromptWriter) -> None:
    media = [Picture(Grid(1, 4, 4)), Sound(26)]
    features = [
        Features(rows=np.zeros((4, 4), np.float32), deepstack=np.ones((3, 4, 4), np.float32)),
        Features(sound=np.arange(26 * 4, dtype=np.float32).reshape(26, 4)),
    ]
    prompt = writer.write([user("Look", images=[None]), user("", audios=[None])], media)
    rows, deepstack = writer.rows(media, features)
    pieces, start = [], 0
    for stop in (3, 6, 30, 40, len(prompt.tokens)):
        pieces.append(prompt.piece(start, stop, rows, deepstack))
        start = stop
    assert [token for piece in pieces for token in piece.tokens] == prompt.tokens
    np.testing.assert_array_equal(np.concatenate([piece.positions for piece in pieces], axis=1), prompt.positions)
    np.testing.assert_array_equal(np.concatenate([piece.rows for piece in pieces if piece.rows is not None]), rows)
    for piece in pieces:
        places = [place for place, token in enumerate(piece.tokens) if token in (AUDIO, IMAGE, VIDEO)]
        assert (piece.at.tolist() if piece.at is not None else []) == places


def test_what_is_heard_so_far_begins_what_is_heard_in_the_end(writer: PromptWriter) -> None:
    """So that the prompt can be prefilled while the person speaks."""
    messages = [user("Hi"), {"role": "assistant", "content": "Yes?"}, user("", audios=[None])]
    so_far, whole = (writer.write(messages, [Sound(rows)]) for rows in (26, 59))
    known = int(so_far.at[-1]) + 1
    assert so_far.tokens[:known] == whole.tokens[:known]
    np.testing.assert_array_equal(so_far.positions[:, :known], whole.positions[:, :known])
