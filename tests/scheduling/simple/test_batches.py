"""Which requests run together, when, and with what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduling.simple.bench import Runner, State, chunk, simulation
from tests.support.scheduling import ends, new, nothing_held, of_type, streamed
from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.scheduling.interface import (
    AbortIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    ResultOut,
    StreamOut,
    Wake,
)

# one request


def test_a_request_without_streams_runs_once_with_its_end(runner: Runner) -> None:
    with simulation(runner) as sim:
        assert sim.give(new("r")) == []
        assert sim.give(EndIn("r")) == [ResultOut("r", {"seen": []})]
        assert [(work.chunks, work.ended) for work in runner.works] == [((), True)]
        assert runner.closed == {"r": 1}
        assert nothing_held(sim.scheduler.stats())


def test_all_that_has_arrived_is_one_work_in_order(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("r"), chunk("r", 1), chunk("r", 2, "think"), chunk("r", 3), EndIn("r"))
        assert [item.source for item in runner.works[0].chunks] == ["client", "think", "client"]
        assert streamed(out, "r") == [{"x": 1}, {"x": 2}, {"x": 3}]
        assert out[-1] == ResultOut("r", {"seen": [1, 2, 3]})


def test_chunks_are_reported_as_consumed_by_source_once_they_have_run(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("r"), chunk("r", 1), chunk("r", 2, "think"), chunk("r", 3))
        assert of_type(ConsumedOut, out) == [ConsumedOut("r", "client", 2), ConsumedOut("r", "think", 1)]
        assert sim.give(Wake()) == []


def test_emits_keep_their_targets(runner: Runner) -> None:
    runner.behave["r"] = lambda work: Outcome([Emit({"x": 1}, ("client",)), Emit({"x": 2})], {})
    with simulation(runner) as sim:
        out = of_type(StreamOut, sim.give(new("r"), EndIn("r")))
        assert [message.targets for message in out] == [("client",), None]


def test_an_early_result_ends_the_request(runner: Runner) -> None:
    runner.behave["r"] = lambda work: Outcome(result={"early": True})
    with simulation(runner) as sim:
        out = sim.give(new("r"), chunk("r", 1))
        assert ends(out, "r") == [ResultOut("r", {"early": True})]
        assert sim.give(chunk("r", 2), EndIn("r")) == []
        assert len(runner.works) == 1


@pytest.mark.parametrize("message", [chunk("nobody", 1), EndIn("nobody"), CreditIn("nobody", 3), AbortIn("nobody")])
def test_what_comes_for_an_unknown_request_is_ignored(runner: Runner, message: Any) -> None:
    with simulation(runner) as sim:
        assert sim.give(message) == []
        assert nothing_held(sim.scheduler.stats())


# batches


def test_requests_share_a_batch_up_to_its_count(runner: Runner) -> None:
    with simulation(runner, max_batch=3) as sim:
        sim.give(*(message for name in "abcde" for message in (new(name), EndIn(name))))
        assert runner.batches == [["a", "b", "c"], ["d", "e"]]


def test_requests_share_a_batch_up_to_its_cost(runner: Runner) -> None:
    costs = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 9.0, "e": 1.0}
    with simulation(runner, max_cost=5.0) as sim:
        sim.give(*(message for name, cost in costs.items() for message in (new(name, cost=cost), EndIn(name))))
        assert runner.batches == [["a", "b"], ["c"], ["d"], ["e"]], "the one that is too large for any batch runs alone"


def test_those_who_ask_for_more_take_turns(runner: Runner) -> None:
    def three_times(work: Work[State]) -> Outcome:
        work.state.seen.append(1)
        return Outcome(result={}) if len(work.state.seen) == 3 else Outcome(more=True)

    runner.behave = dict.fromkeys("abc", three_times)
    with simulation(runner, max_batch=1) as sim:
        sim.give(*(message for name in "abc" for message in (new(name), EndIn(name))))
        assert runner.batches == [["a"], ["b"], ["c"]] * 3


def test_who_asks_for_more_goes_on_without_new_input(runner: Runner) -> None:
    def letter_by_letter(work: Work[State]) -> Outcome:
        work.state.seen += [letter for item in work.chunks for letter in item.data["x"]]
        letter = work.state.seen.pop(0)
        return Outcome([Emit({"x": letter})], more=bool(work.state.seen))

    runner.behave["r"] = letter_by_letter
    with simulation(runner) as sim:
        out = sim.give(new("r"), chunk("r", "abc"))
        assert [data["x"] for data in streamed(out, "r")] == ["a", "b", "c"]
        assert len(runner.batches) == 3


def test_a_newcomer_runs_before_someones_second_turn(runner: Runner) -> None:
    def twice(work: Work[State]) -> Outcome:
        work.state.seen.append(1)
        if len(work.state.seen) == 1:
            sim.feed(new("b"), EndIn("b"))
        return Outcome(result={}) if len(work.state.seen) == 2 else Outcome(more=True)

    runner.behave["a"] = twice
    with simulation(runner, max_batch=1) as sim:
        sim.give(new("a"), EndIn("a"))
        assert runner.batches[0] == ["a"]
        assert sorted(map(tuple, runner.batches[1:])) == [("a",), ("b",)]


def test_a_batch_waits_for_company_as_long_as_its_oldest_may(runner: Runner) -> None:
    with simulation(runner, max_wait_ms=10.0) as sim:
        sim.give(new("a"), EndIn("a"))
        sim.run(0.006)
        sim.give(new("b"), EndIn("b"))
        sim.run(0.003)
        assert runner.batches == []
        sim.run(0.001)
        assert runner.batches == [["a", "b"]]


def test_what_comes_while_it_waits_does_not_make_it_wait_longer(runner: Runner) -> None:
    with simulation(runner, max_wait_ms=10.0) as sim:
        sim.give(new("r"), chunk("r", 1))
        sim.run(0.006)
        sim.give(chunk("r", 2))
        assert streamed(sim.run(0.004), "r") == [{"x": 1}, {"x": 2}]


def test_a_full_batch_does_not_wait(runner: Runner) -> None:
    with simulation(runner, max_wait_ms=10.0, max_batch=2) as sim:
        sim.give(new("a"), EndIn("a"), new("b"), EndIn("b"))
        assert runner.batches == [["a", "b"]]


def test_a_batch_that_waited_keeps_the_order_of_arrival(runner: Runner) -> None:
    with simulation(runner, max_wait_ms=10.0) as sim:
        sim.give(*(new(name) for name in "abc"))
        for name in "bca":
            sim.give(chunk(name, 1))
        sim.run(0.01)
        assert runner.batches == [["b", "c", "a"]]


# credits


def test_emits_wait_for_credits_and_leave_in_order(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("r", credits=2), *(chunk("r", x) for x in range(5)), EndIn("r"))
        assert streamed(out, "r") == [{"x": 0}, {"x": 1}]
        assert sim.give(CreditIn("r", 1)) == [StreamOut("r", {"x": 2}, None)]
        out = sim.give(CreditIn("r", 9))
        assert streamed(out, "r") == [{"x": 3}, {"x": 4}]
        assert out[-1] == ResultOut("r", {"seen": [0, 1, 2, 3, 4]}), "the result comes behind the last emit"


def test_nothing_is_done_for_a_request_whose_listener_is_behind(runner: Runner) -> None:
    with simulation(runner) as sim:
        sim.give(new("slow", credits=1), chunk("slow", 1))
        assert runner.batches == [["slow"]]
        out = sim.give(chunk("slow", 2), chunk("slow", 3), EndIn("slow"))
        assert out == [], "its input is not even consumed, which holds back who sends it"
        assert ends(sim.give(new("quick"), EndIn("quick")), "quick")
        out = sim.give(CreditIn("slow", 1))
        assert runner.batches == [["slow"], ["quick"], ["slow"]]
        assert of_type(ConsumedOut, out) == [ConsumedOut("slow", "client", 2)]


def test_credits_start_at_what_the_stage_was_given(runner: Runner) -> None:
    with simulation(runner) as sim:
        assert sim.give(new("r", credits=0), EndIn("r")) == []
        assert sim.give(CreditIn("r", 1)) == [ResultOut("r", {"seen": []})]


def test_a_blocked_request_that_asked_for_more_goes_on_when_it_may(runner: Runner) -> None:
    def endless(work: Work[State]) -> Outcome:
        work.state.seen.append(1)
        return Outcome([Emit({"x": len(work.state.seen)})], more=True)

    runner.behave["r"] = endless
    with simulation(runner) as sim:
        assert len(sim.give(new("r", credits=3), EndIn("r"))) == 3
        assert streamed(sim.give(CreditIn("r", 2)), "r") == [{"x": 4}, {"x": 5}]
