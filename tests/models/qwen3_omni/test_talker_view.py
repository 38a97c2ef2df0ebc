from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.qwen3_omni.generating import CASES, World
from tests.models.qwen3_omni.segments import cut
from voice_omni.engines.interface import Piece
from voice_omni.models.qwen3_omni.talker_view import TalkerView
from voice_omni.models.qwen3_omni.wire import UserPart
from voice_omni.proto.errors import OmniError


def inner(piece: Piece) -> np.ndarray:
    """Rows that tell where they stood."""
    assert piece.rows is not None
    return piece.rows[:, :2]


def read(world: World, pieces: list[Piece]) -> tuple[UserPart, list[int]]:
    """All that is seen of a prompt, as one part, and the answer's header."""
    view = TalkerView(world.config)
    nothing = np.empty((0, 2), np.float32)
    parts = [view.read(piece, nothing if piece.rows is None else inner(piece)) for piece in pieces]
    seen = [part for part in parts if part is not None]
    starts = np.cumsum([0, *(len(part.tokens) for part in seen)])
    return UserPart(
        [token for part in seen for token in part.tokens],
        np.concatenate([part.positions for part in seen], axis=1),
        np.concatenate([part.at + start for part, start in zip(seen, starts, strict=False)]),
        np.concatenate([part.hidden for part in seen]),
    ), view.close()


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_however_a_prompt_is_cut_the_same_is_seen(world: World, name: str, data: st.DataObject) -> None:
    piece = world.piece(name)
    whole, header = read(world, [piece])
    places = data.draw(st.sets(st.integers(1, len(piece) - 1)))
    parts, same_header = read(world, cut(piece, places))
    assert (parts.tokens, same_header) == (whole.tokens, header)
    assert np.array_equal(parts.positions, whole.positions)
    assert np.array_equal(parts.at, whole.at)
    assert np.array_equal(parts.hidden, whole.hidden)


def test_media_rows_stay_with_their_tokens(world: World) -> None:
    piece = world.piece("two turns of sound around an answer")
    whole, _ = read(world, [piece])
    assert np.flatnonzero(np.array(whole.tokens) == world.config.thinker.audio_token_id).tolist() == whole.at.tolist()
    assert np.array_equal(whole.hidden, inner(piece))


def test_turns_are_moved_together(world: World) -> None:
    whole, _ = read(world, [world.piece("two turns of the person around an answer")])
    assert np.array_equal(whole.positions, np.broadcast_to(np.arange(len(whole.tokens)), (3, len(whole.tokens))))


def test_a_picture_keeps_its_shape(world: World) -> None:
    piece = world.piece("a picture")
    assert piece.positions is not None
    whole, _ = read(world, [piece])
    start = piece.tokens.index(world.config.user_token_id) - 1
    shape = piece.positions[:, start : start + len(whole.tokens)]
    assert np.array_equal(whole.positions, shape - shape[0, 0])


def test_a_film_with_its_sound_is_counted_row_by_row(world: World) -> None:
    whole, _ = read(world, [world.piece("a film with its sound")])
    assert np.array_equal(whole.positions, np.broadcast_to(np.arange(len(whole.tokens)), (3, len(whole.tokens))))


def test_the_header_is_that_of_the_turn_that_begins_last(world: World) -> None:
    case = world.case("two turns of the person around an answer")
    _, header = read(world, [world.piece("two turns of the person around an answer")])
    assert header == case.tokens[-3:]


def test_a_prompt_that_ends_with_another_turn_has_no_header(world: World) -> None:
    with pytest.raises(OmniError) as raised:
        read(world, cut(world.piece("text"), {15})[:1])
    assert raised.value.code == "invalid_value"
