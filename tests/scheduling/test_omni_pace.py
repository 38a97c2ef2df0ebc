"""Rows whose sound is far enough ahead of the ear rest, and go on together."""

from __future__ import annotations

from collections import deque

import pytest

from tests.scheduling.test_omni import gain
from tests.scheduling.test_omni_streamed import FedEngine, FedRunner, chunk
from tests.support.scheduling import Simulation, ends, new, nothing_held, of_type, streamed
from voice_omni.engines.interface import RowOutput
from voice_omni.model_runner.interface import Outcome
from voice_omni.scheduling.interface import AbortIn, ConsumedOut, CreditIn, Outgoing, ResultOut, Wake
from voice_omni.scheduling.omni import STRIDE_S, OmniScheduler
from voice_omni.scheduling.options import OmniOptions

FRAME_S = 0.1
"""Of sound for each token."""


class SpokenRunner(FedRunner):
    def advance(self, state: str, output: RowOutput) -> Outcome:
        outcome = super().advance(state, output)
        outcome.played_s = FRAME_S * len(output.tokens)
        return outcome


class Bench:
    """A stage whose rows may be two seconds ahead, that is twenty tokens."""

    def __init__(self, runner: FedRunner | None = None) -> None:
        self.engine = FedEngine()
        self.runner = runner or SpokenRunner()
        options = OmniOptions(lead_s=2.0)
        self.sim = Simulation(lambda outbox, clock: OmniScheduler(self.runner, self.engine, options, outbox, clock))

    def speak(self, *outputs: RowOutput) -> list[Outgoing]:
        self.engine.reports = deque([list(outputs)])
        return self.sim.give(Wake())

    def calls(self) -> list[tuple[str, str]]:
        """What was asked of the engine beside rows that were added."""
        taken, self.engine.calls = self.engine.calls, []
        return [call for call in taken if call[0] != "add"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def some(row_id: str, count: int) -> RowOutput:
    return gain(row_id, *range(count))


def test_a_row_rests_when_it_is_as_far_ahead_as_it_may_be(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a"), new("b"))
        assert len(streamed(bench.speak(some("a", 19), some("b", 5)), "a")) == 19
        assert bench.calls() == []
        bench.speak(some("a", 1))
        assert bench.calls() == [("pause", "a")]
        assert bench.sim.scheduler.stats()["ahead"] == 1


def test_it_goes_on_with_the_next_stride_in_which_it_is_less_far_ahead(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a"))
        bench.speak(some("a", 25))
        bench.calls()
        bench.sim.run(STRIDE_S)
        assert bench.calls() == [], "still 2.1 seconds ahead"
        bench.sim.run(STRIDE_S)
        assert bench.calls() == [("resume", "a")]
        bench.speak(some("a", 2))
        assert bench.calls() == [], "2.5 s and 0.2 s less 0.8 s"
        bench.speak(some("a", 2))
        assert bench.calls() == [("pause", "a")]


def test_rows_go_on_together_whenever_they_came_to_rest(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a"), new("b"))
        bench.speak(some("a", 20))
        bench.sim.run(STRIDE_S / 2)
        bench.speak(some("b", 20))
        bench.calls()
        bench.sim.run(STRIDE_S * 0.49)
        assert bench.calls() == []
        bench.sim.run(STRIDE_S * 0.02)
        assert sorted(bench.calls()) == [("resume", "a"), ("resume", "b")]


def test_what_was_under_way_still_counts(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a"))
        bench.speak(some("a", 20))
        out = bench.speak(some("a", 5))
        assert len(streamed(out, "a")) == 5
        bench.calls()
        bench.sim.run(STRIDE_S)
        assert bench.calls() == [], "2.5 s less 0.4 s"


def test_a_resting_row_takes_in_what_comes(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a"))
        bench.speak(some("a", 20))
        out = bench.sim.give(chunk("a", 7))
        assert bench.engine.tokens("a") == [7]
        assert of_type(ConsumedOut, out, "a")


def test_a_resting_row_whose_listener_is_slow_waits_for_both(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a", credits=20))
        bench.speak(some("a", 20))
        assert bench.calls() == [("pause", "a")]
        bench.sim.run(STRIDE_S)
        assert bench.calls() == []
        bench.sim.give(CreditIn("a", 5))
        assert bench.calls() == [("resume", "a")]


def test_a_resting_row_can_end_and_be_aborted(bench: Bench) -> None:
    with bench.sim:
        bench.sim.give(new("a"), new("b"))
        bench.speak(some("a", 20), some("b", 20))
        bench.sim.give(AbortIn("a"))
        assert ("remove", "a") in bench.calls()
        bench.speak(RowOutput("a", [], "removed"))
        [end] = ends(bench.speak(gain("b", 1, finish="length")), "b")
        assert isinstance(end, ResultOut)
        bench.sim.run(2 * STRIDE_S)
        assert nothing_held(bench.sim.scheduler.stats())


def test_what_is_not_played_is_not_paced() -> None:
    bench = Bench(FedRunner())
    with bench.sim:
        bench.sim.give(new("a", credits=1000))
        bench.speak(some("a", 500))
        assert bench.calls() == []
