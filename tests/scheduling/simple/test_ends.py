"""Failures and aborts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduling.simple.bench import Runner, State, chunk, simulation
from tests.support.scheduling import ends, new, nothing_held, of_type, streamed
from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.proto.errors import OmniError
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    CreditIn,
    EndIn,
    FailedOut,
    Outgoing,
    ResultOut,
)

# failures


def failed(out: list[Outgoing], request_id: str) -> OmniError:
    assert len(ends(out, request_id)) == 1
    [message] = of_type(FailedOut, out, request_id)
    return message.error


def test_a_request_that_cannot_open_fails_alone(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("bad", refuse=ValueError("no")), EndIn("bad"), new("good"), EndIn("good"))
        assert failed(out, "bad").code == "internal_error"
        assert ends(out, "good") == [ResultOut("good", {"seen": []})]
        assert runner.closed == {"good": 1}, "what was never opened is not closed"


def test_an_expected_failure_keeps_its_code(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("bad", refuse=OmniError("no_speech", "nothing was said")))
        assert failed(out, "bad").code == "no_speech"


def test_an_outcome_may_be_a_failure_of_one_in_the_batch(runner: Runner) -> None:
    runner.behave["bad"] = lambda work: Outcome(error=OmniError("invalid_value", "as asked"))
    with simulation(runner) as sim:
        out = sim.give(new("bad"), new("good"), EndIn("bad"), EndIn("good"))
        assert runner.batches == [["bad", "good"]]
        assert failed(out, "bad").code == "invalid_value"
        assert of_type(ResultOut, ends(out, "good"))


def explode(work: Work[State]) -> Outcome:
    raise RuntimeError("boom")


def test_a_batch_that_fails_fails_its_members_and_no_other(runner: Runner) -> None:
    runner.behave["bad"] = explode
    with simulation(runner, max_batch=2) as sim:
        out = sim.give(*(message for name in ("bad", "beside", "after") for message in (new(name), EndIn(name))))
        assert failed(out, "bad").code == failed(out, "beside").code == "internal_error"
        assert of_type(ResultOut, ends(out, "after"))
        assert runner.closed == {"bad": 1, "beside": 1, "after": 1}
        assert nothing_held(sim.scheduler.stats())


def test_a_runner_that_answers_for_too_few_fails_the_batch(runner: Runner) -> None:
    runner.run = lambda batch: []  # type: ignore[method-assign]
    with simulation(runner) as sim:
        assert failed(sim.give(new("r"), EndIn("r")), "r").code == "internal_error"


def test_a_request_whose_cost_is_unknown_fails_alone(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("bad", cost=ValueError("?")), EndIn("bad"), new("good"), EndIn("good"))
        assert failed(out, "bad").code == "internal_error"
        assert of_type(ResultOut, ends(out, "good"))
        assert failed(sim.give(new("alone", cost=ValueError("?")), EndIn("alone")), "alone")


def test_no_result_after_the_end_is_an_error(runner: Runner) -> None:
    runner.behave["r"] = lambda work: Outcome([Emit({"x": 1})])
    with simulation(runner) as sim:
        out = sim.give(new("r"), EndIn("r"))
        assert failed(out, "r").code == "internal_error"
        assert "no result" in str(failed(out, "r"))


def test_a_failure_while_closing_concerns_nobody(runner: Runner) -> None:
    with simulation(runner) as sim:
        out = sim.give(new("bad", unclosable=True), EndIn("bad"), new("good"), EndIn("good"))
        assert of_type(ResultOut, ends(out, "bad"))
        assert of_type(ResultOut, ends(out, "good"))
        assert nothing_held(sim.scheduler.stats())


# aborts


SITUATIONS: dict[str, list[Any]] = {
    "just opened": [new("r")],
    "with input under way": [new("r"), chunk("r", 1)],
    "without credits": [new("r", credits=0), chunk("r", 1)],
    "with emits that wait": [new("r", credits=1), chunk("r", 1), chunk("r", 2)],
    "with a result that waits": [new("r", credits=1), chunk("r", 1), chunk("r", 2), EndIn("r")],
}


@pytest.mark.parametrize("together", [True, False], ids=["in one go", "later"])
@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS.keys())
def test_an_abort_is_acknowledged_once_and_leaves_nothing(runner: Runner, situation: list[Any], together: bool) -> None:
    with simulation(runner, max_wait_ms=5.0) as sim:
        sim.feed(*situation)
        if not together:
            sim.run(0.01)
        sim.scheduler.abort("r")
        sim.scheduler.abort("r")
        out = sim.give(chunk("r", 9), EndIn("r"), CreditIn("r", 5))
        assert out == [AbortedOut("r")]
        assert runner.closed == {"r": 1}
        assert nothing_held(sim.scheduler.stats())


def test_an_abort_that_comes_after_the_result_is_not_acknowledged_here(runner: Runner) -> None:
    with simulation(runner) as sim:
        assert of_type(ResultOut, sim.give(new("r"), EndIn("r")))
        assert sim.give(AbortIn("r")) == []


def test_an_abort_during_a_batch_comes_after_it(runner: Runner) -> None:
    runner.during_run = lambda: sim.scheduler.abort("r")
    with simulation(runner) as sim:
        out = sim.give(new("r"), chunk("r", 1))
        assert streamed(out, "r") == [{"x": 1}]
        assert out[-1] == AbortedOut("r")
