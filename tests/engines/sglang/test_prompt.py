"""What a prompt in pieces adds up to."""

from __future__ import annotations

import numpy as np

from voice_omni.engines.interface import Piece
from voice_omni.engines.sglang.prompt import Limits, Prompt

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


def test_digests_tell_apart_rows_and_where_they_stand() -> None:
    same = prompt(Piece([7] * 3, ROWS)).given[0].digest
    assert prompt(Piece([8] * 3, ROWS.copy())).given[0].digest == same
    moved = np.tile(np.arange(3, 6, dtype=np.float32), (3, 1))
    others = [Piece([7] * 3, ROWS + 1), Piece([7] * 3, ROWS, positions=moved)]
    assert same not in [prompt(other).given[0].digest for other in others]
