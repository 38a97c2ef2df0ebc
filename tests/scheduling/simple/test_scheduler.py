"""The thread, and everything in any order."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.scheduling.simple.bench import Runner, chunk, simulation
from tests.support.patience import PATIENCE_S
from tests.support.scheduling import Collected, ends, new, nothing_held, of_type, streamed
from voice_omni.scheduling.interface import (
    AbortIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    Outgoing,
    ResultOut,
)
from voice_omni.scheduling.options import SimpleOptions
from voice_omni.scheduling.simple import SimpleScheduler

# the thread


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
    assert ended.wait(PATIENCE_S)
    scheduler.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert outbox.messages[-1] == ResultOut("r", {"seen": [1]})


# in any order


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
