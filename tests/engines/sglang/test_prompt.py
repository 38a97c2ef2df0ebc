"""What a prompt in pieces adds up to."""

from __future__ import annotations

import numpy as np
import pytest

from voice_omni.engines.interface import Piece
from voice_omni.engines.sglang.prompt import Limits, Prompt
from voice_omni.proto.errors import OmniError

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def prompt(*pieces: Piece) -> Prompt:
    made = Prompt(Limits(vocabulary=100, width=4, layers=2))
    for piece in pieces:
        made.extend(piece)
    return made


def test_places_of_rows_are_counted_from_the_start_of_the_prompt_and_joined_where_they_touch() -> None:
    made = prompt(Piece([1, 2]), Piece([7] * 5, ROWS, np.array([0, 1, 4])), Piece([7] * 3, ROWS))
    assert made.tokens == [1, 2, *[7] * 8]
    assert [given.spans for given in made.given] == [((2, 3), (6, 6)), ((7, 9),)]


def test_an_id_that_holds_the_place_of_a_row_may_be_of_another_models_vocabulary() -> None:
    """The talker's prompt has the thinker's ids, of which its own vocabulary has 2 in 100."""
    assert prompt(Piece([150_000] * 3, ROWS)).tokens == [0, 0, 0]
    with pytest.raises(OmniError, match="no token 150000"):
        prompt(Piece([150_000] * 5, ROWS, np.array([0, 1, 4])))


def test_deepstack_rows_lie_beside_their_rows() -> None:
    [given] = prompt(Piece([7] * 3, ROWS, None, np.stack([ROWS + 100, ROWS + 200]))).given
    assert given.deep
    assert given.rows[1].tolist() == [4, 5, 6, 7, 104, 105, 106, 107, 204, 205, 206, 207]


def test_rotary_positions_go_on_behind_the_largest_one() -> None:
    named = np.array([[5, 6, 6], [5, 6, 9], [5, 8, 6]], np.float32)
    positions = prompt(Piece([1, 2]), Piece([7] * 3, ROWS, positions=named), Piece([3])).positions(said=2)
    assert positions is not None
    assert positions.tolist() == [[0, 1, 5, 6, 6, 10, 11, 12], [0, 1, 5, 6, 9, 10, 11, 12], [0, 1, 5, 8, 6, 10, 11, 12]]


def test_a_prompt_of_tokens_leaves_counting_to_the_model() -> None:
    assert prompt(Piece([1, 2])).positions(said=1) is None


def test_rows_are_known_by_their_content_and_place_whichever_pieces_they_come_in() -> None:
    whole = prompt(Piece([7] * 3, ROWS)).given[0].ids
    assert len(set(whole)) == 3
    assert min(whole) > 100
    apart = prompt(Piece([8], ROWS[:1].copy()), Piece([8, 8], ROWS[1:])).given
    assert np.concatenate([given.ids for given in apart]).tolist() == whole.tolist()
    moved = np.tile(np.arange(3, 6, dtype=np.float32), (3, 1))
    deep = np.zeros((2, 3, 4), np.float32)
    others = [Piece([7] * 3, ROWS + 1), Piece([7] * 3, ROWS, positions=moved), Piece([7] * 3, ROWS, None, deep)]
    for other in others:
        assert not set(prompt(other).given[0].ids) & set(whole)


def test_a_piece_of_no_rows_is_one_of_tokens() -> None:
    made = prompt(Piece([1, 2], ROWS[:0], np.empty(0, np.int64)))
    assert made.tokens == [1, 2]
    assert not made.given


def test_what_is_taken_back_leaves_no_trace() -> None:
    made = prompt(Piece([1, 2]), Piece([7, 7], ROWS[:2]), Piece([3], positions=np.full((3, 1), 9, np.float32)))
    made.cut(2)
    made.extend(Piece([7, 4], ROWS[:1], np.array([0])))
    same = prompt(Piece([1, 2]), Piece([7, 4], ROWS[:1], np.array([0])))
    assert made.tokens == same.tokens
    assert [given.spans for given in made.given] == [given.spans for given in same.given]
    positions = made.positions(1), same.positions(1)
    assert positions[0] is not None
    assert positions[1] is not None
    assert positions[0].tolist() == positions[1].tolist()


@pytest.mark.parametrize("length", [1, 3, 5])
def test_only_borders_between_pieces_can_be_cut_at(length: int) -> None:
    made = prompt(Piece([1, 2]), Piece([7, 7], ROWS[:2]))
    with pytest.raises(OmniError, match="border"):
        made.cut(length)
    made.cut(4)
    made.cut(0)
    assert not made


def test_spans_of_rows_from_a_border_on() -> None:
    made = prompt(Piece([1, 7], ROWS[:1], np.array([1])), Piece([7, 2, 7], ROWS[:2], np.array([0, 2])))
    assert made.spans(0) == ((1, 1), (2, 2), (4, 4))
    assert made.spans(2) == ((2, 2), (4, 4))
    assert made.spans(5) == ()
