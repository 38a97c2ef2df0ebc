"""Which requests a row becomes: the rules alone, beside a scheduler that is played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.engines.interface import Feed, Piece, Row, RowOutput, Sampling
from voice_omni.engines.sglang.prompt import Limits
from voice_omni.engines.sglang.rows import Abort, Ask, End, Reply, Rows
from voice_omni.proto.errors import OmniError


@dataclass
class Played:
    """The rows, and what they have sent."""

    sent: list[Ask | Abort] = field(default_factory=list)
    rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.rows = Rows(self.sent.append, Limits(vocabulary=100))

    def feed(self, *pieces: list[int], closed: bool = False) -> None:
        self.rows.feed("r", Feed([Piece(piece) for piece in pieces], closed))

    @property
    def asked(self) -> Ask:
        """The latest request."""
        return next(sent for sent in reversed(self.sent) if isinstance(sent, Ask))

    @property
    def aborted(self) -> list[str]:
        return [sent.rid for sent in self.sent if isinstance(sent, Abort)]

    def reply(self, *tokens: int, end: End | None = None, error: Exception | None = None) -> list[RowOutput]:
        self.rows.receive(Reply(self.asked.rid, list(tokens), end, error))
        return self.rows.take()


@pytest.fixture
def played() -> Played:
    return Played()


def row(prompt: list[int], tokens: int = 4, stop: frozenset[int] = frozenset(), **rest: Any) -> Row:
    return Row("r", prompt, tokens, stop, **rest)


def test_a_row_is_one_request_for_all_its_tokens(played: Played) -> None:
    sampling = Sampling(temperature=0.5, seed=3)
    played.rows.add(row([1, 2], stop=frozenset({9}), sampling=sampling, session="s"))
    assert played.sent == [Ask("1.", (1, 2), (), 4, frozenset({9}), sampling, "s")]
    assert played.reply(5) == [RowOutput("r", [5])]
    assert played.reply(6, end="stop") == [RowOutput("r", [6])]


def test_replies_that_came_together_are_one_output(played: Played) -> None:
    played.rows.add(row([1]))
    played.rows.receive(Reply("1.", [5]))
    played.rows.receive(Reply("1.", [6]))
    assert played.rows.take() == [RowOutput("r", [5, 6])]
    assert played.rows.take() == []


def test_pieces_are_prefilled_one_after_another_and_those_that_wait_go_together(played: Played) -> None:
    played.rows.add(row([1], open=True))
    played.feed([2])
    played.feed([3, 4])
    assert [(sent.prompt, sent.new_tokens) for sent in played.sent if isinstance(sent, Ask)] == [((1,), 0)]
    assert played.reply(end="length") == []
    assert (played.asked.prompt, played.asked.new_tokens) == ((1, 2, 3, 4), 0)
    played.feed(closed=True)
    played.reply(end="length")
    assert (played.asked.prompt, played.asked.new_tokens) == ((1, 2, 3, 4), 4)


def test_a_token_that_a_prefill_happens_to_report_is_none_of_the_rows(played: Played) -> None:
    played.rows.add(row([1], open=True))
    assert played.reply(7, end="length") == []


def test_a_paused_row_goes_on_with_what_it_has_said(played: Played) -> None:
    played.rows.add(row([1], tokens=4))
    played.reply(5)
    played.rows.pause("r")
    assert played.aborted == ["1."]
    assert played.reply(6, end="aborted") == [RowOutput("r", [6])]
    played.rows.resume("r")
    assert (played.asked.prompt, played.asked.said, played.asked.new_tokens) == ((1,), (5, 6), 2)


def test_a_row_resumed_before_its_pause_is_through_asks_again_after_it(played: Played) -> None:
    played.rows.add(row([1]))
    played.rows.pause("r")
    played.rows.resume("r")
    played.rows.pause("r")
    played.rows.resume("r")
    assert played.aborted == ["1."]
    played.reply(end="aborted")
    assert played.asked.rid == "2."


@pytest.mark.parametrize(("last", "finish"), [(9, "stop"), (6, "length")])
def test_a_row_that_came_to_its_end_on_the_way_to_a_pause_has_ended(played: Played, last: int, finish: str) -> None:
    """SGLang looks at an abort before it looks at the token of the same step."""
    played.rows.add(row([1], tokens=2, stop=frozenset({9})))
    played.reply(5)
    played.rows.pause("r")
    [output] = played.reply(last, end="aborted")
    assert output.finish == finish
    assert output.tokens == ([] if last == 9 else [6])


def test_a_prefill_is_not_paused(played: Played) -> None:
    played.rows.add(row([1], open=True))
    played.rows.pause("r")
    assert played.aborted == []


def test_an_end_of_sequence_that_is_no_stop_of_the_row_does_not_end_it(played: Played) -> None:
    played.rows.add(row([1], stop=frozenset({9})))
    assert played.reply(2, end="stop") == [RowOutput("r", [2])]
    assert played.asked.said == (2,)


def test_a_row_without_place_for_more_ends_by_length(played: Played) -> None:
    played.rows.add(row([1], tokens=50))
    [output] = played.reply(5, end="length")
    assert output.finish == "length"


def test_a_failed_request_fails_its_row(played: Played) -> None:
    played.rows.add(row([1]))
    error = OmniError("overloaded", "no place")
    assert played.reply(3, end="error", error=error) == [RowOutput("r", [], error=error)]
    assert played.rows.stats() == {"rows": 0, "requests": 0}


def test_a_removed_row_ends_when_its_request_has(played: Played) -> None:
    played.rows.add(row([1]))
    played.rows.remove("r")
    played.rows.remove("r")
    assert played.aborted == ["1."]
    assert not played.rows.news
    [output] = played.reply(5, end="aborted")
    assert output.finish == "removed"


def test_a_removed_row_without_a_request_ends_at_once(played: Played) -> None:
    played.rows.add(row([], open=True))
    played.rows.remove("r")
    assert played.rows.take() == [RowOutput("r", [], "removed")]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: rows.add(row([])),
        lambda rows: rows.add(row([100])),
        lambda rows: rows.add(row([1], padding=np.zeros(4, np.float32))),
        lambda rows: rows.feed("closed", Feed([Piece([1])])),
        lambda rows: rows.feed("closed", Feed(closed=True)),
        lambda rows: rows.feed("open", Feed(closed=True)),
        lambda rows: rows.feed("open", Feed([Piece([-1])])),
        lambda rows: rows.feed("open", Feed([Piece([1], np.zeros((1, 4), np.float32))])),
        lambda rows: rows.feed("open", Feed([Piece([1], positions=np.zeros((3, 1), np.float32))])),
        lambda rows: rows.feed("open", Feed(ended=True)),
    ],
)
def test_what_the_scheduler_could_not_take_is_refused(played: Played, wrong: Any) -> None:
    played.rows.add(Row("closed", [1], 4, frozenset()))
    played.rows.add(Row("open", [], 4, frozenset(), open=True))
    with pytest.raises(OmniError) as raised:
        wrong(played.rows)
    assert raised.value.code == "invalid_value"
    assert played.rows.stats()["rows"] == 2


def test_a_penalised_row_ends_its_prompt_with_a_token(played: Played) -> None:
    """SGLang penalises the prompt's last position, and a row's place in the cache is no token's id."""
    played.rows = Rows(played.sent.append, Limits(vocabulary=100, width=4))
    given = Piece([1, 2], np.zeros((2, 4), np.float32))
    for penalty in (1.0, 1.1):
        played.rows.add(Row(f"{penalty}", [], 4, frozenset(), Sampling(repetition_penalty=penalty), open=True))
        played.rows.feed(f"{penalty}", Feed([given]))
    played.rows.feed("1.0", Feed(closed=True))
    with pytest.raises(OmniError, match="ends with a token"):
        played.rows.feed("1.1", Feed(closed=True))
    played.rows.feed("1.1", Feed([Piece([3])], closed=True))


# -- hidden rows and taking back ---------------------------------------------------------------------------------------


@pytest.fixture
def seeing() -> Played:
    """With an open row whose model reports hidden rows."""
    played = Played()
    played.rows = Rows(played.sent.append, Limits(vocabulary=100, width=4, hidden=True))
    played.rows.add(row([1], open=True))
    played.reply(end="length")
    return played


def pictured(*tokens: int) -> Piece:
    """Its second token and those behind stand for rows."""
    return Piece(tokens, np.ones((len(tokens) - 1, 4), np.float32), np.arange(1, len(tokens)))


def inner(*values: float) -> Any:
    return np.array([[value] * 4 for value in values], np.float32)


def shown(played: Played, *values: float) -> list[float]:
    """The rows that are reported when the running request brings these."""
    played.rows.receive(Reply(played.asked.rid, [], hidden=inner(*values)))
    return reported(played)


def reported(played: Played) -> list[float]:
    return [float(row[0]) for output in played.rows.take() if output.hidden is not None for row in output.hidden]


def test_hidden_rows_are_wanted_where_rows_were_given_and_of_each_place_once(seeing: Played) -> None:
    seeing.rows.feed("r", Feed([pictured(7, 7, 7)]))
    assert seeing.asked.hidden == ((2, 3),)
    assert shown(seeing, 0.5, 0.6) == pytest.approx([0.5, 0.6])
    seeing.reply(end="length")
    seeing.rows.feed("r", Feed([Piece([2]), pictured(7, 7)], closed=True))
    assert seeing.asked.hidden == ((6, 6),)
    assert shown(seeing, 0.7) == pytest.approx([0.7])
    seeing.rows.pause("r")
    seeing.reply(end="aborted")
    seeing.rows.resume("r")
    assert seeing.asked.hidden == ()


def test_rows_whose_request_ended_before_they_came_are_wanted_again(seeing: Played) -> None:
    seeing.rows.feed("r", Feed([pictured(7, 7)], closed=True))
    seeing.rows.pause("r")
    seeing.reply(end="aborted")
    seeing.rows.resume("r")
    assert seeing.asked.hidden == ((2, 2),)


def test_without_a_layer_to_report_none_are_wanted(seeing: Played) -> None:
    seeing.rows = Rows(seeing.sent.append, Limits(vocabulary=100, width=4))
    seeing.rows.add(row([1], open=True))
    seeing.reply(end="length")
    seeing.rows.feed("r", Feed([pictured(7, 7)]))
    assert seeing.asked.hidden == ()


def test_what_is_taken_back_is_as_if_it_had_never_been_fed(seeing: Played) -> None:
    seeing.rows.feed("r", Feed([pictured(7, 7), pictured(8, 8)]))
    assert seeing.asked.hidden == ((2, 2), (4, 4))
    seeing.rows.feed("r", Feed([pictured(9, 9, 9)], kept=3))
    assert not seeing.aborted, "a prefill that is under way goes on"
    assert shown(seeing, 0.5, 0.6) == pytest.approx([0.5])
    seeing.reply(end="length")
    assert seeing.asked.prompt == (1, 7, 7, 9, 9, 9)
    assert seeing.asked.hidden == ((4, 5),)


def test_rows_that_nobody_has_taken_yet_are_taken_back_too(seeing: Played) -> None:
    seeing.rows.feed("r", Feed([pictured(7, 7), pictured(8, 8)]))
    seeing.rows.receive(Reply(seeing.asked.rid, [], hidden=inner(0.5, 0.6)))
    seeing.rows.receive(Reply(seeing.asked.rid, [], "length"))
    seeing.rows.feed("r", Feed(kept=3))
    assert reported(seeing) == pytest.approx([0.5])
    assert seeing.rows.stats()["requests"] == 0, "all that is left has been computed"
    seeing.rows.feed("r", Feed([pictured(8, 8)]))
    assert seeing.asked.hidden == ((4, 4),)


def test_a_prompt_taken_back_and_fed_to_the_same_length_is_asked_for_again(seeing: Played) -> None:
    seeing.rows.feed("r", Feed([Piece([7, 8])]))
    seeing.reply(end="length")
    seeing.rows.feed("r", Feed([Piece([9, 9])], kept=1))
    assert seeing.asked.prompt == (1, 9, 9)


@pytest.mark.parametrize("kept", [2, 4, -1])
def test_only_borders_between_pieces_can_be_gone_back_to(seeing: Played, kept: int) -> None:
    seeing.rows.feed("r", Feed([Piece([7, 8])]))
    with pytest.raises(OmniError, match="border"):
        seeing.rows.feed("r", Feed(kept=kept))


def test_a_closed_prompt_is_not_taken_back(seeing: Played) -> None:
    seeing.rows.feed("r", Feed(closed=True))
    with pytest.raises(OmniError, match="closed"):
        seeing.rows.feed("r", Feed(kept=1))


CALLS = st.sampled_from(["feed", "close", "pause", "resume", "remove", "token", "end", "abort"])


@given(calls=st.lists(CALLS, max_size=40), limit=st.integers(1, 6), is_open=st.booleans())
def test_whatever_happens_a_row_has_one_request_and_one_end(calls: list[str], limit: int, is_open: bool) -> None:
    played = Played()
    played.rows.add(row([1], tokens=limit, open=is_open, stop=frozenset({9})))
    running = played.asked
    said: list[int] = []
    ends: list[str | None] = []

    def answer(*tokens: int, end: End | None = None) -> None:
        nonlocal running
        rid = running.rid
        for output in played.reply(*tokens, end=end):
            said.extend(output.tokens)
            if output.finish:
                ends.append(output.finish)
        if played.asked.rid != rid:
            running = played.asked

    for call in calls:
        if ends:
            break
        stats = played.rows.stats()
        if running is not played.asked:
            running = played.asked
        alive = stats["requests"] == 1
        match call:
            case "feed" if is_open:
                played.feed([2])
            case "close" if is_open:
                played.feed(closed=True)
                is_open = False
            case "pause" | "resume" | "remove":
                getattr(played.rows, call)("r")
                ends += [output.finish for output in played.rows.take()]
            case "token" if alive and running.new_tokens > 1:
                answer(len(said) + 10)
            case "end" if alive:
                answer(*[len(said) + 10 for _ in range(min(1, running.new_tokens))], end="length")
            case "abort" if alive and running.rid in played.aborted:
                answer(end="aborted")
        assert played.rows.stats()["requests"] <= 1
    assert len(ends) <= 1
    assert len(said) <= limit
    assert len(played.aborted) == len(set(played.aborted))
    assert played.rows.stats()["rows"] == 1 - len(ends)
