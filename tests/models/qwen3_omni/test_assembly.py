"""A prompt in reading order, however its parts arrive."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.engines.interface import Piece
from voice_omni.models.qwen3_omni.assembly import Assembly, Segment
from voice_omni.models.qwen3_omni.wire import ENDED, LIVE, PROMPT, ROWS
from voice_omni.proto.errors import OmniError

WIDTH = 4
AUDIO, IMAGE = 90, 91


def line(first: float, count: int) -> np.ndarray:
    return np.broadcast_to(np.arange(first, first + count, dtype=np.float32), (3, count))


def text(first: float, *tokens: int) -> Segment:
    return Segment(tokens=list(tokens), positions=line(first, len(tokens)))


def live(first: float) -> Segment:
    return Segment(tokens=[AUDIO], positions=line(first, 1), medium=LIVE)


def picture(first: float, count: int, medium: int = 0) -> Segment:
    return Segment(tokens=[IMAGE] * count, positions=line(first, count), medium=medium, seen=np.arange(count))


def prompt(*segments: Segment) -> dict[str, Any]:
    return {PROMPT: [msgspec.structs.asdict(segment) for segment in segments], ENDED: True}


def rows(*values: float) -> np.ndarray:
    return np.repeat(np.array(values, np.float32)[:, None], WIDTH, axis=1)


def heard(first: int, *values: float, ended: bool = False) -> dict[str, Any]:
    return {ROWS: {"medium": LIVE, "heard": rows(*values), "first": first, "ended": ended}}


def seen(*values: float, medium: int = 0) -> dict[str, Any]:
    deepstack = np.stack([10 * rows(*values), 20 * rows(*values)])
    return {ROWS: {"medium": medium, "seen": rows(*values), "deepstack": deepstack}}


class Read:
    """What a reader holds who does as it is told."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.pieces: list[Piece] = []

    def on(self) -> Read:
        ready = self.assembly.ready()
        if ready.kept is not None:
            while sum(map(len, self.pieces)) > ready.kept:
                self.pieces.pop()
            assert sum(map(len, self.pieces)) == ready.kept, "the border of a piece"
        self.pieces += ready.pieces
        return self

    @property
    def tokens(self) -> list[int]:
        return [token for piece in self.pieces for token in piece.tokens]

    @property
    def places(self) -> list[float]:
        return [float(place) for piece in self.pieces for place in piece.positions[0]]  # type: ignore[index]

    @property
    def values(self) -> list[float]:
        return [float(row[0]) for piece in self.pieces if piece.rows is not None for row in piece.rows]


def test_text_is_read_at_once() -> None:
    assembly = Assembly()
    assembly.take(prompt(text(0, 1, 2, 3)))
    read = Read(assembly).on()
    assert (read.tokens, read.places, assembly.complete) == ([1, 2, 3], [0, 1, 2], True)
    assert len(read.pieces) == 1


def test_what_stands_behind_a_picture_waits_for_its_rows() -> None:
    assembly = Assembly()
    assembly.take(prompt(text(0, 1), picture(1, 3), text(4, 2)))
    read = Read(assembly).on()
    assert (read.tokens, assembly.complete) == ([1], False)
    assembly.take(seen(5, 6))
    assert read.on().tokens == [1]
    assembly.take(seen(7))
    assert read.on().tokens == [1, IMAGE, IMAGE, IMAGE, 2]
    assert read.values == [5, 6, 7]
    assert assembly.complete
    [_, piece] = read.pieces
    assert piece.deepstack is not None
    assert piece.deepstack[:, :, 0].tolist() == [[50, 60, 70], [100, 120, 140]]


def test_a_live_sound_grows_and_moves_what_follows_it() -> None:
    assembly = Assembly()
    assembly.take(prompt(text(0, 1, 2), live(2), text(2, 3, 4)))
    read = Read(assembly).on()
    assembly.take(heard(0, 10, 11))
    assert read.on().tokens == [1, 2, AUDIO, AUDIO]
    assembly.take(heard(2, 12, ended=True))
    assert read.on().tokens == [1, 2, AUDIO, AUDIO, AUDIO, 3, 4]
    assert (read.places, read.values) == ([0, 1, 2, 3, 4, 5, 6], [10, 11, 12])
    assert len(read.pieces) == 3  # the last rows and what follows are computed together
    assert assembly.complete


def test_rows_that_change_are_given_again_from_the_piece_that_held_them() -> None:
    assembly = Assembly()
    assembly.take(prompt(text(0, 1), live(1), text(1, 2)))
    read = Read(assembly).on()
    for first, value in ((0, 10), (1, 11), (2, 12)):
        assembly.take(heard(first, value))
        read.on()
    assembly.take(heard(1, 21, 22, 23, ended=True))
    ready = assembly.ready()
    assert ready.kept == 2
    assert [len(piece) for piece in ready.pieces] == [4]
    assert assembly.complete


def test_rows_may_come_before_the_prompt() -> None:
    assembly = Assembly()
    assembly.take(heard(0, 10, ended=True))
    assert not assembly.ready().pieces
    assembly.take(prompt(text(0, 1), live(1), text(1, 2)))
    assert Read(assembly).on().tokens == [1, AUDIO, 2]


def test_more_rows_than_places_are_a_fault() -> None:
    assembly = Assembly()
    assembly.take(prompt(picture(0, 1)))
    assembly.take(seen(1, 2))
    with pytest.raises(OmniError, match="more rows"):
        assembly.ready()


@given(data=st.data())
def test_whatever_comes_when_the_same_is_read_in_the_end(data: st.DataObject) -> None:
    """Rows of a live sound that come in pieces and change, a picture before and one behind it, reads in between."""
    final = [float(value) for value in range(100, 108)]
    segments = (text(0, 1), picture(1, 2), text(3, 2, 3), live(5), text(5, 4), picture(6, 3, medium=1), text(9, 5))
    live_messages, known = [], 0
    while known < len(final):
        first = data.draw(st.integers(0, known))
        known = data.draw(st.integers(known + 1, len(final)))
        wrong = data.draw(st.booleans()) and known < len(final)
        values = [value + 0.5 if wrong else value for value in final[first:known]]
        live_messages.append(heard(first, *values))
    live_messages.append(heard(0, *final, ended=True))
    others = data.draw(st.permutations([prompt(*segments), seen(1, 2), seen(3, 4, 5, medium=1)]))
    assembly = Assembly()
    read = Read(assembly)
    while live_messages or others:
        queue = live_messages if live_messages and (not others or data.draw(st.booleans())) else others
        assembly.take(queue.pop(0))
        if data.draw(st.booleans()):
            read.on()
    read.on()
    assert assembly.complete
    assert read.tokens == [1, *[IMAGE] * 2, 2, 3, *[AUDIO] * 8, 4, *[IMAGE] * 3, 5]
    assert read.places == list(map(float, range(18)))
    assert read.values == [1, 2, *final, 3, 4, 5]
