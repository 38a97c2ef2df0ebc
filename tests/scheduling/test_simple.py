"""Independent items in batches: what shares a batch, whose turn it is, and that nobody pays for another."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scheduling import Clock, Collected, Simulation, ends, new, nothing_held, of_type, streamed
from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    FailedOut,
    Outgoing,
    ResultOut,
    StreamOut,
    Wake,
)
from voice_omni.scheduling.options import SimpleOptions
from voice_omni.scheduling.simple import SimpleScheduler


@dataclass
class State:
    request_id: str
    params: dict[str, Any]
    seen: list[Any] = field(default_factory=list)


class Runner:
    """Echoes every chunk, and gives all it has seen as the result. ``behave`` replaces that for one request."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.works: list[Work[State]] = []
        self.closed: Counter[str] = Counter()
        self.behave: dict[str, Callable[[Work[State]], Outcome]] = {}
        self.during_run: Callable[[], None] = lambda: None

    def open(self, payload: StagePayload) -> State:
        if "refuse" in payload.request.params:
            raise payload.request.params["refuse"]
        return State(payload.request_id, payload.request.params)

    def cost(self, work: Work[State]) -> float:
        cost = work.state.params.get("cost", 1.0)
        if isinstance(cost, Exception):
            raise cost
        return float(cost)

    def run(self, batch: Sequence[Work[State]]) -> Sequence[Outcome]:
        self.batches.append([work.request_id for work in batch])
        self.works += batch
        self.during_run()
        return [self.behave.get(work.request_id, self._echo)(work) for work in batch]

    def _echo(self, work: Work[State]) -> Outcome:
        data = [chunk.data["x"] for chunk in work.chunks]
        work.state.seen += data
        return Outcome([Emit({"x": x}) for x in data], {"seen": work.state.seen} if work.ended else None)

    def close(self, state: State) -> None:
        self.closed[state.request_id] += 1
        if "unclosable" in state.params:
            raise RuntimeError("cannot close")


def simulation(runner: Runner, **options: Any) -> Simulation:
    def build(outbox: Collected, clock: Clock) -> SimpleScheduler:
        return SimpleScheduler(runner, SimpleOptions(**options), outbox, clock)

    return Simulation(build)


def chunk(request_id: str, x: Any, source: str = "client") -> ChunkIn:
    return ChunkIn(request_id, source, {"x": x})


@pytest.fixture
def runner() -> Runner:
    return Runner()


# -- one request -------------------------------------------------------------------------------------------------------


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


# -- batches -----------------------------------------------------------------------------------------------------------


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


# -- credits -----------------------------------------------------------------------------------------------------------


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


# -- failures ----------------------------------------------------------------------------------------------------------


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


# -- aborts ------------------------------------------------------------------------------------------------------------

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


# -- the thread --------------------------------------------------------------------------------------------------------


def test_stopping_closes_what_is_open_and_says_nothing(runner: Runner) -> None:
    with simulation(runner) as sim:
        sim.give(new("a"), new("b", credits=0), chunk("b", 1))
        assert sim.stop() == []
        assert runner.closed == {"a": 1, "b": 1}
        assert nothing_held(sim.scheduler.stats())


def test_how_long_a_batch_runs_is_seen_from_outside(runner: Runner) -> None:
    seen: list[int] = []

    def slow() -> None:
        sim.clock.now += 0.25
        seen.append(sim.scheduler.stats()["busy_ms"])

    runner.during_run = slow
    with simulation(runner) as sim:
        sim.give(new("r"), EndIn("r"))
        assert seen == [250]
        assert sim.scheduler.stats()["busy_ms"] == 0


def test_it_serves_and_stops_on_a_real_queue_and_thread(runner: Runner) -> None:
    class Ended(Collected):
        def put(self, message: Outgoing) -> None:
            super().put(message)
            if isinstance(message, ResultOut):
                ended.set()

    ended = threading.Event()
    outbox = Ended()
    scheduler = SimpleScheduler(runner, SimpleOptions(max_wait_ms=1.0), outbox)
    thread = threading.Thread(target=scheduler.start)
    thread.start()
    for message in (new("r"), chunk("r", 1), EndIn("r")):
        scheduler.inbox.put(message)
    assert ended.wait(10)
    scheduler.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert outbox.messages[-1] == ResultOut("r", {"seen": [1]})


# -- in any order ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("new"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("chunk"), NAMES, st.integers(0, 99)),
    st.tuples(st.just("end"), NAMES, st.none()),
    st.tuples(st.just("credit"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("abort"), NAMES, st.none()),
    st.tuples(st.just("run"), st.none(), st.sampled_from((0.0, 0.003, 0.02))),
)


@given(st.lists(STEPS, max_size=60), st.integers(1, 3), st.sampled_from((0.0, 10.0)))
def test_whatever_comes_each_request_gets_its_own_and_ends_once(
    steps: list[tuple[str, Any, Any]], max_batch: int, max_wait_ms: float
) -> None:
    """Chunks are echoed in order within the credits given, whatever the others do."""
    runner = Runner()
    sent: dict[str, list[int]] = defaultdict(list)
    credits: Counter[str] = Counter()
    opened: set[str] = set()
    ended: set[str] = set()
    aborted: set[str] = set()
    with simulation(runner, max_batch=max_batch, max_wait_ms=max_wait_ms) as sim:
        out: list[Outgoing] = []
        for step, name, value in steps:
            match step:
                case "new" if name not in opened:
                    opened.add(name)
                    credits[name] += value
                    sim.feed(new(name, credits=value))
                case "chunk" if name in opened and name not in ended | aborted:
                    sent[name].append(value)
                    sim.feed(chunk(name, value))
                case "end" if name in opened and name not in ended:
                    ended.add(name)
                    sim.feed(EndIn(name))
                case "credit" if name in opened:
                    credits[name] += value
                    sim.feed(CreditIn(name, value))
                case "abort":
                    if name in opened:
                        aborted.add(name)
                    sim.feed(AbortIn(name))
                case "run":
                    out += sim.run(value)
                    for each in opened:
                        assert len(streamed(out, each)) <= credits[each]
        for name in opened - ended:
            sim.feed(EndIn(name))
        for name in opened:
            sim.feed(CreditIn(name, 100))
        out += sim.run(1.0)
        assert nothing_held(sim.scheduler.stats())
    assert runner.closed == dict.fromkeys(opened, 1)
    for name in opened:
        assert len(ends(out, name)) == 1
        echoed = [data["x"] for data in streamed(out, name)]
        assert echoed == sent[name][: len(echoed)]
        mine = [message for message in out if message.request_id == name]
        assert mine[-1] == ends(out, name)[0], "nothing comes after the end"
        if name not in aborted:
            assert mine[-1] == ResultOut(name, {"seen": sent[name]})
            assert echoed == sent[name]
            assert sum(message.count for message in of_type(ConsumedOut, out, name)) == len(sent[name])
