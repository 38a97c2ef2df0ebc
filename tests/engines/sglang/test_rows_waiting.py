"""What is fed to an open prompt waits for more of its kind, and for nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.engines.interface import Feed, Piece, Row
from voice_omni.engines.sglang.prompt import Limits
from voice_omni.engines.sglang.rows import Abort, Ask, Reply, Rows


class Hearing:
    """One row generates while another hears; time is told."""

    def __init__(self) -> None:
        self.sent: list[Ask | Abort] = []
        self.now = 10.0
        self.rows = Rows(self.sent.append, Limits(vocabulary=100), patience_s=0.2, clock=lambda: self.now)
        self.rows.add(Row("speaks", [1], 50, frozenset()))

    @property
    def asked(self) -> list[tuple[str, tuple[int, ...], int]]:
        """What has been asked for since the row that speaks began."""
        return [(sent.rid, sent.prompt, sent.new_tokens) for sent in self.sent[1:] if isinstance(sent, Ask)]

    def hear(self, name: str, *tokens: int, closed: bool = False) -> None:
        self.rows.feed(name, Feed([Piece(list(tokens))], closed))

    def opened(self, *names: str) -> None:
        for name in names:
            self.rows.add(Row(name, [2], 5, frozenset(), open=True))

    def step(self, after_s: float) -> None:
        self.now += after_s
        self.rows.receive(Reply("1.", [7]))


def test_open_prompts_wait_for_each_other_while_a_row_generates() -> None:
    hearing = Hearing()
    hearing.opened("a")
    hearing.step(0.15)
    hearing.opened("b")
    hearing.hear("a", 3)
    assert hearing.asked == []
    hearing.step(0.05)
    assert hearing.asked == [("2.", (2, 3), 0), ("3.", (2,), 0)]
    hearing.rows.receive(Reply("2.", [], "length"))
    hearing.hear("a", 4)
    hearing.step(0.19)
    assert len(hearing.asked) == 2, "what comes next waits from its own coming on"
    hearing.step(0.01)
    assert hearing.asked[2:] == [("4.", (2, 3, 4), 0)]


def test_a_prompt_that_is_closed_waits_for_nothing_and_takes_what_has_waited() -> None:
    hearing = Hearing()
    hearing.opened("a", "b")
    hearing.hear("a", 3, closed=True)
    assert hearing.asked == [("2.", (2, 3), 5)]


@pytest.mark.parametrize("end", ["ends", "pauses", "goes"])
def test_open_prompts_wait_for_no_step_that_does_not_come(end: str) -> None:
    hearing = Hearing()
    hearing.opened("a")
    match end:
        case "ends":
            hearing.rows.receive(Reply("1.", [], "length"))
            hearing.rows.receive(Reply("2.", [], "length"))
        case "pauses":
            hearing.rows.pause("speaks")
        case "goes":
            hearing.rows.remove("speaks")
            hearing.rows.receive(Reply("1.", [], "aborted"))
    assert [prompt for _, prompt, _ in hearing.asked] == [(2,)]
    hearing.opened("b")
    assert [prompt for _, prompt, _ in hearing.asked] == [(2,), (2,)], "with nothing to wait for, at once"


def test_a_prompt_that_waits_can_be_paused_and_removed() -> None:
    hearing = Hearing()
    hearing.opened("a", "b")
    hearing.rows.pause("a")
    hearing.rows.remove("b")
    hearing.step(0.3)
    assert hearing.asked == []
    hearing.rows.resume("a")
    hearing.step(0.3)
    assert hearing.asked == [("2.", (2,), 0)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["feed", "close", "pause", "resume", "remove", "done", "step"]), st.sampled_from("abc")
        )
    )
)
def test_whatever_waits_is_asked_for_in_the_end(calls: list[tuple[str, str]]) -> None:
    hearing = Hearing()
    heard = {"a": [10], "b": [40], "c": [70]}
    for name, prompt in heard.items():
        hearing.rows.add(Row(name, list(prompt), 5, frozenset(), open=True))
    closed: set[str] = set()

    def asked(first: int) -> list[Ask]:
        return [sent for sent in hearing.sent if isinstance(sent, Ask) and sent.prompt[0] == first]

    def done(first: int) -> None:
        """What is under way for the row is through."""
        for ask in asked(first)[-1:]:
            hearing.rows.receive(Reply(ask.rid, [], "length"))

    for call, name in calls:
        match call:
            case "feed" if name in heard.keys() - closed and len(heard[name]) < 30:
                heard[name].append(heard[name][-1] + 1)
                hearing.hear(name, heard[name][-1])
            case "close" if name in heard.keys() - closed:
                hearing.hear(name, closed=True)
                closed.add(name)
            case "pause" | "resume":
                getattr(hearing.rows, call)(name)
            case "remove":
                hearing.rows.remove(name)
                heard.pop(name, None)
            case "done" if name in heard:
                done(heard[name][0])
            case "step":
                hearing.step(0.07)
    hearing.rows.receive(Reply("1.", [], "length"))
    for _ in range(2):
        for name, first in {"a": 10, "b": 40, "c": 70}.items():
            hearing.rows.resume(name)
            done(first)
    assert {name: asked(prompt[0])[-1].prompt for name, prompt in heard.items()} == {
        name: tuple(prompt) for name, prompt in heard.items()
    }
