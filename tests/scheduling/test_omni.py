"""Rows in an engine: each on its own, paused for a slow listener, gone before its abort is acknowledged."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scheduling import Clock, Collected, Simulation, ends, new, nothing_held, of_type, streamed
from tests.support.toy import CountingEngine
from voice_omni.engines.interface import Engine, FinishReason, Row, RowOutput
from voice_omni.model_runner.interface import Emit, Outcome
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    CreditIn,
    FailedOut,
    Outgoing,
    ResultOut,
    StreamOut,
    Wake,
)
from voice_omni.scheduling.omni import OmniScheduler
from voice_omni.scheduling.options import OmniOptions


class ScriptedEngine:
    """Asynchronous: the test says what it reports next, and sees what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.reports: deque[list[RowOutput]] = deque()
        self.rows: set[str] = set()
        self.refused: set[str] = set()
        self.wake: Callable[[], None] = lambda: None
        self.stopped = False

    def start(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def add(self, row: Row) -> None:
        if row.row_id in self.refused:
            raise OmniError("invalid_value", "the prompt is too long")
        self.calls.append(("add", row.row_id))
        self.rows.add(row.row_id)

    def pause(self, row_id: str) -> None:
        assert row_id in self.rows
        self.calls.append(("pause", row_id))

    def resume(self, row_id: str) -> None:
        assert row_id in self.rows
        self.calls.append(("resume", row_id))

    def remove(self, row_id: str) -> None:
        assert row_id in self.rows
        self.calls.append(("remove", row_id))

    @property
    def busy(self) -> bool:
        return bool(self.reports)

    def step(self) -> list[RowOutput]:
        outputs = self.reports.popleft()
        self.rows -= {output.row_id for output in outputs if output.finish or output.error}
        return outputs

    def stop(self) -> None:
        self.stopped = True
        self.rows.clear()

    def stats(self) -> dict[str, int]:
        return {"rows": len(self.rows)}


class Runner:
    """Streams every token; all of them are the result. ``behave`` replaces that for one request."""

    def __init__(self) -> None:
        self.behave: dict[str, Callable[[RowOutput], Outcome]] = {}
        self.seen: dict[str, list[int]] = {}
        self.closed: Counter[str] = Counter()

    def open(self, payload: StagePayload) -> tuple[str, Row]:
        if "refuse" in payload.request.params:
            raise payload.request.params["refuse"]
        self.seen[payload.request_id] = []
        limit = payload.request.params.get("tokens", 1000)
        return payload.request_id, Row(payload.request_id, [1, 2], limit, frozenset())

    def advance(self, state: str, output: RowOutput) -> Outcome:
        if state in self.behave:
            return self.behave[state](output)
        self.seen[state] += output.tokens
        emits = [Emit({"x": token}) for token in output.tokens]
        return Outcome(emits, {"tokens": self.seen[state], "why": output.finish} if output.finish else None)

    def close(self, state: str) -> None:
        self.closed[state] += 1


class Bench:
    """A scheduler over the scripted engine."""

    def __init__(self, max_rows: int = 16) -> None:
        self.engine = ScriptedEngine()
        self.runner = Runner()
        self.sim = Simulation(lambda outbox, clock: make(self.runner, self.engine, max_rows, outbox, clock))

    def report(self, *outputs: RowOutput) -> list[Outgoing]:
        """One step of the engine in which it reports these."""
        self.engine.reports.append(list(outputs))
        return self.sim.give(Wake())

    def calls(self) -> list[tuple[str, str]]:
        taken, self.engine.calls = self.engine.calls, []
        return taken


def make(runner: Runner, engine: Engine, max_rows: int, outbox: Collected, clock: Clock) -> OmniScheduler:
    return OmniScheduler(runner, engine, OmniOptions(max_rows=max_rows), outbox, clock)


def gain(row_id: str, *tokens: int, finish: FinishReason | None = None) -> RowOutput:
    return RowOutput(row_id, list(tokens), finish)


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- rows --------------------------------------------------------------------------------------------------------------


def test_a_row_streams_its_tokens_and_ends_with_its_result(bench: Bench) -> None:
    with bench.sim as sim:
        assert sim.give(new("r")) == []
        assert bench.calls() == [("add", "r")]
        assert streamed(bench.report(gain("r", 5, 6)), "r") == [{"x": 5}, {"x": 6}]
        out = bench.report(gain("r", 7, finish="stop"))
        assert out == [StreamOut("r", {"x": 7}, None), ResultOut("r", {"tokens": [5, 6, 7], "why": "stop"})]
        assert bench.runner.closed == {"r": 1}
        assert nothing_held(sim.scheduler.stats())


def test_rows_are_admitted_in_turn_as_others_end() -> None:
    bench = Bench(max_rows=2)
    with bench.sim as sim:
        sim.give(*(new(name) for name in "abcd"))
        assert bench.calls() == [("add", "a"), ("add", "b")]
        assert sim.scheduler.stats()["waiting"] == 2
        bench.report(gain("b", 1))
        assert bench.calls() == []
        bench.report(gain("b", finish="stop"))
        assert bench.calls() == [("add", "c")]
        bench.report(gain("a", finish="stop"), gain("c", finish="length"))
        assert bench.calls() == [("add", "d")]
        bench.report(gain("d", finish="stop"))
        assert nothing_held(sim.scheduler.stats())


def test_a_row_that_is_leaving_keeps_its_place_until_the_engine_lets_go() -> None:
    bench = Bench(max_rows=1)
    with bench.sim as sim:
        sim.give(new("a"), new("b"))
        sim.give(AbortIn("a"))
        assert bench.calls() == [("add", "a"), ("remove", "a")]
        bench.report(gain("a", finish="removed"))
        assert bench.calls() == [("add", "b")]


# -- slow listeners ----------------------------------------------------------------------------------------------------


def test_a_row_without_credits_is_paused_alone_and_resumed(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("slow", credits=2), new("quick"))
        bench.calls()
        out = bench.report(gain("slow", 1, 2, 3), gain("quick", 1, 2, 3))
        assert len(streamed(out, "slow")) == 2
        assert len(streamed(out, "quick")) == 3
        assert bench.calls() == [("pause", "slow")]
        assert sim.give(CreditIn("slow", 1)) == [StreamOut("slow", {"x": 3}, None)]
        assert bench.calls() == [], "what it has made is out, but there is no credit for more"
        sim.give(CreditIn("slow", 1))
        assert bench.calls() == [("resume", "slow")]


def test_a_row_is_paused_with_its_last_credit_not_after_the_first_lack(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=1))
        bench.calls()
        bench.report(gain("r", 1))
        assert bench.calls() == [("pause", "r")]


def test_tokens_that_were_under_way_when_the_row_was_paused_are_kept(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=1))
        bench.report(gain("r", 1))
        assert bench.report(gain("r", 2), gain("r", 3)) == []
        assert [call for call in bench.calls() if call[0] == "pause"] == [("pause", "r")], "it is paused already"
        assert streamed(sim.give(CreditIn("r", 5)), "r") == [{"x": 2}, {"x": 3}]
        assert bench.calls() == [("resume", "r")]


def test_a_row_that_ends_while_paused_gives_its_result_when_the_listener_catches_up(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=1))
        bench.report(gain("r", 1, 2))
        assert bench.report(gain("r", 3, finish="length")) == []
        bench.calls()
        out = sim.give(CreditIn("r", 2))
        assert out[-1] == ResultOut("r", {"tokens": [1, 2, 3], "why": "length"})
        assert bench.calls() == [], "there is no row to resume"
        assert nothing_held(sim.scheduler.stats())


def test_a_result_before_the_rows_end_removes_it(bench: Bench) -> None:
    """The runner has found a stop string."""
    bench.runner.behave["r"] = lambda output: Outcome([Emit({"x": 1})], {"early": True})
    with bench.sim as sim:
        sim.give(new("r"))
        bench.calls()
        out = bench.report(gain("r", 1))
        assert ends(out, "r") == [ResultOut("r", {"early": True})]
        assert bench.calls() == [("remove", "r")]
        assert sim.scheduler.stats()["leaving"] == 1
        assert bench.report(gain("r", finish="removed")) == []
        assert nothing_held(sim.scheduler.stats())


@pytest.mark.parametrize("late", [gain("r", 2), gain("r", 2, finish="stop"), RowOutput("r", [], None, ValueError("x"))])
def test_an_early_result_that_waits_for_credits_is_not_lost(bench: Bench, late: RowOutput) -> None:
    """Tokens that were under way when the runner ended the request change nothing."""
    bench.runner.behave["r"] = lambda output: Outcome([Emit({"x": output.tokens[0]})], {"early": output.tokens[0]})
    with bench.sim as sim:
        sim.give(new("r", credits=0))
        bench.report(gain("r", 1))
        assert bench.report(late) == []
        assert sim.give(CreditIn("r", 1)) == [StreamOut("r", {"x": 1}, None), ResultOut("r", {"early": 1})]
        if not (late.finish or late.error):
            bench.report(gain("r", finish="removed"))
        assert nothing_held(sim.scheduler.stats())


# -- failures ----------------------------------------------------------------------------------------------------------


def failed(out: list[Outgoing], request_id: str) -> OmniError:
    assert len(ends(out, request_id)) == 1
    [message] = of_type(FailedOut, out, request_id)
    return message.error


def test_a_request_that_cannot_open_fails_alone(bench: Bench) -> None:
    with bench.sim as sim:
        out = sim.give(new("bad", refuse=ValueError("no")), new("good"))
        assert failed(out, "bad").code == "internal_error"
        assert bench.calls() == [("add", "good")]
        assert bench.runner.closed == {}


def test_a_row_that_the_engine_refuses_fails_alone(bench: Bench) -> None:
    bench.engine.refused.add("bad")
    with bench.sim as sim:
        out = sim.give(new("bad"), new("good"))
        assert failed(out, "bad").code == "invalid_value"
        assert bench.calls() == [("add", "good")]
        assert bench.runner.closed == {"bad": 1}
        assert ends(bench.report(gain("good", finish="stop")), "good")
        assert nothing_held(sim.scheduler.stats())


def test_a_row_that_fails_in_the_engine_fails_alone_and_makes_room() -> None:
    bench = Bench(max_rows=2)
    with bench.sim as sim:
        sim.give(new("bad"), new("good"), new("next"))
        out = bench.report(RowOutput("bad", [], None, OmniError("overloaded", "no memory")), gain("good", 1))
        assert failed(out, "bad").code == "overloaded"
        assert streamed(out, "good") == [{"x": 1}]
        assert bench.calls()[-1] == ("add", "next")
        assert ("remove", "bad") not in bench.calls(), "the engine has let go of it already"


def explode(output: RowOutput) -> Outcome:
    raise RuntimeError("boom")


def test_a_running_row_whose_runner_fails_is_removed_from_the_engine(bench: Bench) -> None:
    bench.runner.behave["bad"] = explode
    with bench.sim as sim:
        sim.give(new("bad"), new("good"))
        bench.calls()
        out = bench.report(gain("bad", 1), gain("good", 1))
        assert failed(out, "bad").code == "internal_error"
        assert streamed(out, "good") == [{"x": 1}]
        assert bench.calls() == [("remove", "bad")]
        assert bench.report(gain("bad", 2)) == [], "it is closed, though the engine still runs it"
        assert bench.report(gain("bad", finish="removed")) == [], "nobody waits for this"
        assert ends(bench.report(gain("good", finish="stop")), "good")
        assert nothing_held(sim.scheduler.stats())


def test_a_finished_row_whose_runner_fails_is_not_removed_again(bench: Bench) -> None:
    bench.runner.behave["bad"] = explode
    with bench.sim as sim:
        sim.give(new("bad"))
        bench.calls()
        assert failed(bench.report(gain("bad", finish="stop")), "bad")
        assert bench.calls() == []
        assert nothing_held(sim.scheduler.stats())


def test_no_result_for_a_finished_row_is_an_error(bench: Bench) -> None:
    bench.runner.behave["r"] = lambda output: Outcome()
    with bench.sim as sim:
        sim.give(new("r"))
        assert failed(bench.report(gain("r", finish="stop")), "r").code == "internal_error"


# -- aborts ------------------------------------------------------------------------------------------------------------


def test_a_running_row_is_acknowledged_when_the_engine_has_let_go_of_it(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"))
        assert sim.give(AbortIn("r"), AbortIn("r")) == []
        assert bench.runner.closed == {"r": 1}
        assert bench.report(gain("r", 3)) == []
        assert bench.report(gain("r", finish="removed")) == [AbortedOut("r")]
        assert nothing_held(sim.scheduler.stats())


@pytest.mark.parametrize("last", [gain("r", 3, finish="stop"), RowOutput("r", [], None, ValueError("x"))])
def test_a_row_that_ends_by_itself_while_it_is_removed_is_acknowledged_too(bench: Bench, last: RowOutput) -> None:
    with bench.sim as sim:
        sim.give(new("r"), AbortIn("r"))
        assert bench.report(last) == [AbortedOut("r")]
        assert nothing_held(sim.scheduler.stats())


def test_a_waiting_row_is_acknowledged_at_once() -> None:
    bench = Bench(max_rows=1)
    with bench.sim as sim:
        sim.give(new("running"), new("waiting"))
        assert sim.give(AbortIn("waiting")) == [AbortedOut("waiting")]
        assert bench.calls() == [("add", "running")]
        bench.report(gain("running", finish="stop"))
        assert nothing_held(sim.scheduler.stats())


def test_a_paused_row_is_removed(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=1))
        bench.report(gain("r", 1))
        bench.calls()
        assert sim.give(AbortIn("r")) == []
        assert bench.calls() == [("remove", "r")]
        assert bench.report(gain("r", finish="removed")) == [AbortedOut("r")]


def test_a_finished_row_with_a_result_that_waits_is_acknowledged_at_once(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=0))
        bench.report(gain("r", 1, finish="stop"))
        assert sim.give(AbortIn("r")) == [AbortedOut("r")]
        assert nothing_held(sim.scheduler.stats())


def test_an_abort_of_an_unknown_or_finished_request_says_nothing(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"))
        bench.report(gain("r", finish="stop"))
        assert sim.give(AbortIn("r"), AbortIn("nobody")) == []


def test_an_abort_after_the_runner_failed_says_nothing(bench: Bench) -> None:
    bench.runner.behave["bad"] = explode
    with bench.sim as sim:
        sim.give(new("bad"))
        bench.report(gain("bad", 1))
        assert sim.give(AbortIn("bad")) == []
        assert bench.report(gain("bad", finish="removed")) == []


def test_stopping_closes_what_is_open_and_stops_the_engine(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("a"), new("b", credits=0))
        assert sim.stop() == []
        assert bench.runner.closed == {"a": 1, "b": 1}
        assert bench.engine.stopped


def test_the_engine_wakes_the_scheduler(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"))
        bench.engine.reports.append([gain("r", 1)])
        bench.engine.wake()
        assert streamed(sim.run(), "r") == [{"x": 1}]


# -- a synchronous engine, in any order --------------------------------------------------------------------------------

NAMES = st.sampled_from("abcde")
STEPS = st.one_of(
    st.tuples(st.just("new"), NAMES, st.tuples(st.integers(1, 8), st.integers(0, 4))),
    st.tuples(st.just("credit"), NAMES, st.integers(1, 4)),
    st.tuples(st.just("abort"), NAMES, st.none()),
    st.tuples(st.just("run"), st.none(), st.none()),
)


@given(st.lists(STEPS, max_size=40), st.integers(1, 3))
def test_whatever_comes_each_row_gets_its_own_tokens_and_ends_once(
    steps: list[tuple[str, Any, Any]], max_rows: int
) -> None:
    runner, engine = Runner(), CountingEngine(0.0)
    tokens: dict[str, int] = {}
    credits: Counter[str] = Counter()
    aborted: set[str] = set()
    with Simulation(lambda outbox, clock: make(runner, engine, max_rows, outbox, clock)) as sim:
        out: list[Outgoing] = []
        for step, name, value in steps:
            match step:
                case "new" if name not in tokens:
                    tokens[name], credits[name] = value
                    sim.feed(new(name, credits=value[1], tokens=value[0]))
                case "credit" if name in tokens:
                    credits[name] += value
                    sim.feed(CreditIn(name, value))
                case "abort":
                    if name in tokens:
                        aborted.add(name)
                    sim.feed(AbortIn(name))
                case "run":
                    out += sim.run()
                    for each in tokens:
                        assert len(streamed(out, each)) <= credits[each]
        for name in tokens:
            sim.feed(CreditIn(name, 100))
        out += sim.run()
        assert nothing_held(sim.scheduler.stats())
    assert runner.closed == dict.fromkeys(tokens, 1)
    for name, count in tokens.items():
        said = [data["x"] for data in streamed(out, name)]
        assert said == list(range(len(said)))
        assert len(ends(out, name)) == 1
        if name not in aborted:
            assert len(said) == count
            assert of_type(ResultOut, ends(out, name))
