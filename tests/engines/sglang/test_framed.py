"""Rows of a model with a frame head: what their requests begin with, and what is told of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from voice_omni.engines.interface import Feed, Piece, Row, RowOutput, Rows, Sampling
from voice_omni.engines.sglang import rows as asking
from voice_omni.engines.sglang.fed_row import FedRow, Told
from voice_omni.engines.sglang.prompt import Limits
from voice_omni.engines.sglang.rows import Abort, Ask, End, Reply
from voice_omni.proto.errors import OmniError

WIDTH = 3
LIMITS = Limits(100, WIDTH, framed=True, suppressed=frozenset({90}))


def numbered(first: int, count: int) -> Rows:
    return np.arange(first, first + count, dtype=np.float32)[:, None].repeat(WIDTH, axis=1)


def embed(frames: list[list[int]], conditions: Rows) -> Rows:
    """A frame is read as a thousand times its first code."""
    return np.array([[1000.0 * frame[0]] * WIDTH for frame in frames], np.float32) + conditions


@dataclass
class Played:
    sent: list[Ask | Abort | Told] = field(default_factory=list)
    rows: asking.Rows = field(init=False)

    def __post_init__(self) -> None:
        self.rows = asking.Rows(self.sent.append, LIMITS, embed)

    @property
    def asked(self) -> Ask:
        return next(sent for sent in reversed(self.sent) if isinstance(sent, Ask))

    @property
    def fed(self) -> FedRow:
        assert self.asked.fed is not None
        return self.asked.fed

    @property
    def told(self) -> list[Told]:
        return [sent for sent in self.sent if isinstance(sent, Told)]

    def start(self, **rest: Any) -> None:
        self.rows.add(row(**rest))
        self.rows.feed("r", Feed([Piece([1] * 4, numbered(10, 4))], closed=True))

    def reply(self, *frames: list[int] | None, end: End | None = None) -> list[RowOutput]:
        tokens = [0 if frame is None else frame[0] for frame in frames]
        self.rows.receive(Reply(self.asked.rid, tokens, end, frames=frames))
        return self.rows.take()


@pytest.fixture
def played() -> Played:
    return Played()


def row(tokens: int = 5, **rest: Any) -> Row:
    rest.setdefault("padding", np.full(WIDTH, -1, np.float32))
    return Row("r", [], tokens, frozenset({50}), open=True, **rest)


def test_the_last_row_of_the_prompt_is_left_to_the_first_step(played: Played) -> None:
    played.start()
    assert played.asked.prompt == (1, 1, 1)
    [given] = played.asked.given
    assert given.spans == ((0, 2),)
    assert given.rows.tolist() == numbered(10, 3).tolist()
    assert played.fed.first.tolist() == [13] * WIDTH
    assert played.asked.new_tokens == 6, "one for the end of the prompt"


def test_a_last_piece_of_one_row_is_not_prefilled_at_all(played: Played) -> None:
    played.rows.add(row())
    played.rows.feed("r", Feed([Piece([1, 1], numbered(10, 2)), Piece([1], numbered(30, 1))], closed=True))
    assert [given.spans for given in played.asked.given] == [((0, 1),)]
    assert played.fed.first.tolist() == [30] * WIDTH


def test_each_token_has_its_frame_and_the_end_of_the_prompt_is_not_told(played: Played) -> None:
    played.start()
    assert played.reply(None) == []
    assert played.reply([7, 8]) == [RowOutput("r", [7], frames=[[7, 8]])]
    assert played.reply([50, 1], end="stop") == [RowOutput("r", [], "stop")]


def test_the_last_token_of_a_row_that_ends_by_its_length_has_no_frame(played: Played) -> None:
    played.start(tokens=2)
    assert played.reply(None, [7, 8], [9, 9], end="length") == [RowOutput("r", [7, 9], "length", frames=[[7, 8]])]


def test_conditions_go_with_the_request_or_after_it(played: Played) -> None:
    played.rows.add(row())
    played.rows.feed("r", Feed(conditions=numbered(0, 2)))
    played.rows.feed("r", Feed([Piece([1] * 4, numbered(10, 4))], closed=True, conditions=numbered(2, 1)))
    assert played.fed.known == 3
    assert not played.told
    played.rows.feed("r", Feed(conditions=numbered(3, 1), ended=True))
    [told] = played.told
    assert told.row is played.fed
    told.apply()
    assert played.fed.known == 4
    assert played.fed.ended
    assert played.fed.take(9).tolist() == numbered(0, 4).tolist()


def test_a_row_that_generates_is_held_where_it_is(played: Played) -> None:
    played.start()
    played.rows.pause("r")
    played.rows.resume("r")
    assert [told.held for told in played.told] == [True, False]
    assert not any(isinstance(sent, Abort) for sent in played.sent)
    assert sum(isinstance(sent, Ask) for sent in played.sent) == 1


def test_an_open_prompt_does_not_wait_for_a_row_that_waits_for_its_condition(played: Played) -> None:
    played.rows = asking.Rows(played.sent.append, LIMITS, embed, patience_s=1000.0)
    played.start()
    speaks = played.asked.rid
    played.rows.add(Row("hears", [], 5, frozenset({50}), open=True, padding=np.zeros(WIDTH, np.float32)))
    played.rows.feed("hears", Feed([Piece([1, 1], numbered(10, 2))]))
    played.reply(None)
    assert played.asked.rid == speaks, "a step is under way"
    played.reply([7, 8])
    assert played.asked.prompt == (1, 1), "the next one is not"


def test_a_row_that_was_taken_back_reads_its_own_frames_again(played: Played) -> None:
    played.start()
    played.rows.feed("r", Feed(conditions=numbered(100, 2), ended=True))
    played.reply(None, [1, 1], [2, 2], [3, 3], [4, 4])
    assert played.reply(end="taken_back") == []
    asked, fed = played.asked, played.fed
    assert asked.prompt == (1, 1, 1, 1, 0, 0, 0)
    first, again = asked.given
    assert first.spans == ((0, 3),)
    assert again.spans == ((4, 6),)
    assert again.rows[:, 0].tolist() == [1100, 2101, 2999], "two conditions, and then padding"
    assert fed.first.tolist() == [4000] * WIDTH, "the step adds the condition"
    assert (fed.said, fed.steps, fed.known, fed.ended) == ((1, 2, 3, 4), 4, 2, True)
    assert asked.new_tokens == 2
    assert played.reply(None, [5, 5], end="length") == [RowOutput("r", [5], "length")]


def test_conditions_that_were_not_read_are_still_to_come_for_a_row_that_was_taken_back(played: Played) -> None:
    played.start()
    played.rows.feed("r", Feed(conditions=numbered(100, 5)))
    played.reply(None, [1, 1], [2, 2])
    played.reply(end="taken_back")
    assert (played.fed.steps, played.fed.written, played.fed.known) == (2, 1, 5)
    assert played.fed.take(9)[:, 0].tolist() == [101, 102, 103, 104]


def test_a_paused_row_that_was_taken_back_is_asked_for_when_it_goes_on(played: Played) -> None:
    played.start()
    played.reply(None, [1, 1])
    played.rows.pause("r")
    played.reply(end="taken_back")
    assert sum(isinstance(sent, Ask) for sent in played.sent) == 1
    played.rows.resume("r")
    assert sum(isinstance(sent, Ask) for sent in played.sent) == 2


def test_what_the_step_of_an_abort_wrote_is_not_told(played: Played) -> None:
    """The row may have been waiting for its condition."""
    played.start()
    played.reply(None, [1, 1])
    played.rows.remove("r")
    assert played.reply([9, 9], end="aborted") == [RowOutput("r", [], "removed")]


def test_steps_wait_for_their_conditions() -> None:
    fed = FedRow(Sampling(), np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
    assert fed.ready, "the first one takes none"
    fed.steps = 1
    assert not fed.ready
    Told(fed, numbered(0, 1)).apply()
    assert fed.ready
    Told(fed, held=True).apply()
    assert not fed.ready
    Told(fed, ended=True, held=False).apply()
    fed.steps = 9
    assert fed.ready


def test_conditions_are_taken_by_the_place_that_there_is() -> None:
    fed = FedRow(Sampling(), np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
    for first in (0, 3, 6):
        fed.put(numbered(first, 3))
    assert [fed.take(room)[:, 0].tolist() for room in (4, 1, 9)] == [[0, 1, 2, 3], [4], [5, 6, 7, 8]]
    assert (fed.written, fed.known) == (9, 9)


@pytest.mark.parametrize(
    "wrong",
    [
        row(padding=np.zeros(WIDTH + 1, np.float32)),
        replace(row(), stop=frozenset({0})),
        row(sampling=Sampling(suppress=frozenset({89, 90}))),
    ],
)
def test_a_row_that_the_model_cannot_compute_is_refused(played: Played, wrong: Row) -> None:
    with pytest.raises(OmniError):
        played.rows.add(wrong)


@pytest.mark.parametrize(
    "piece", [Piece([1], numbered(0, 1)), Piece([1, 2, 3]), Piece([1, 2], numbered(0, 1), np.array([0]))]
)
def test_a_prompt_that_the_model_cannot_read_is_refused(played: Played, piece: Piece) -> None:
    played.rows.add(row())
    with pytest.raises(OmniError):
        played.rows.feed("r", Feed([piece], closed=True))


@pytest.mark.parametrize("padding", [np.zeros(WIDTH, np.float32), None])
def test_conditions_behind_their_end_are_refused(played: Played, padding: Rows | None) -> None:
    played.rows.add(row(padding=padding))
    if padding is not None:
        played.rows.feed("r", Feed(ended=True))
    with pytest.raises(OmniError):
        played.rows.feed("r", Feed(conditions=numbered(0, 1)))
