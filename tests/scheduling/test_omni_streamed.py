"""What streams into an autoregressive stage reaches its row, once the row can take it and no earlier."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import pytest

from tests.scheduling.test_omni import Runner, ScriptedEngine, gain, make
from tests.support.scheduling import Simulation, ends, new, nothing_held, of_type, streamed
from voice_omni.engines.interface import Feed, Piece, Row, RowOutput
from voice_omni.model_runner.interface import Emit, RowOutcome, Work
from voice_omni.model_runner.one_by_one import one_by_one
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.scheduling.interface import (
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
from voice_omni.scheduling.omni import OmniScheduler


class FedEngine(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__()
        self.fed: list[tuple[str, Feed]] = []

    def feed(self, row_id: str, feed: Feed) -> None:
        assert row_id in self.rows
        if any(token < 0 for piece in feed.pieces for token in piece.tokens):
            raise OmniError("invalid_value", "no such token")
        self.fed.append((row_id, feed))

    def tokens(self, row_id: str) -> list[int]:
        return [token for name, feed in self.fed if name == row_id for piece in feed.pieces for token in piece.tokens]


class FedRunner(Runner):
    """What comes in goes into the row. ``react`` replaces that for one request."""

    def __init__(self) -> None:
        super().__init__()
        self.react: dict[str, Callable[[Work[str]], RowOutcome]] = {}
        self.calls: list[tuple[str, list[int], bool]] = []
        self.batches: list[list[str]] = []
        self.broken = False

    def open(self, payload: StagePayload) -> tuple[str, Row]:
        state, row = super().open(payload)
        return state, Row(row.row_id, [], row.max_new_tokens, row.stop, open=True)

    def push(self, batch: Sequence[Work[str]]) -> list[RowOutcome]:
        self.batches.append([work.request_id for work in batch])
        if self.broken:
            raise RuntimeError("all of it")
        return one_by_one(self._push, batch)

    def _push(self, work: Work[str]) -> RowOutcome:
        tokens = [chunk.data["x"] for chunk in work.chunks]
        self.calls.append((work.request_id, tokens, work.ended))
        if work.request_id in self.react:
            return self.react[work.request_id](work)
        return RowOutcome(feed=Feed([Piece(tokens)], closed=work.ended))


class Bench:
    def __init__(self, max_rows: int = 16) -> None:
        self.engine = FedEngine()
        self.runner = FedRunner()
        self.sim = Simulation(lambda outbox, clock: make(self.runner, self.engine, max_rows, outbox, clock))

    def report(self, *outputs: RowOutput) -> list[Outgoing]:
        self.engine.reports = deque([list(outputs)])
        return self.sim.give(Wake())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def chunk(request_id: str, token: int, source: str = "above") -> ChunkIn:
    return ChunkIn(request_id, source, {"x": token})


def data(out: list[Outgoing], request_id: str) -> list[Data]:
    return streamed(out, request_id)


def test_chunks_reach_the_row_as_they_come_and_are_credited(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"))
        assert bench.runner.calls == [("r", [], False)], "the row is there, and may begin with what its payload says"
        assert sim.give(chunk("r", 1), chunk("r", 2, "beside")) == [
            ConsumedOut("r", "above", 1),
            ConsumedOut("r", "beside", 1),
        ]
        sim.give(chunk("r", 3))
        assert bench.engine.tokens("r") == [1, 2, 3]
        assert not bench.engine.fed[-1][1].closed


def test_the_end_of_the_streams_is_told_once(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"), chunk("r", 1), EndIn("r"))
        assert [ended for _, _, ended in bench.runner.calls].count(True) == 1
        assert bench.engine.fed[-1][1].closed
        calls = len(bench.runner.calls)
        bench.report(gain("r", 5))
        sim.give(CreditIn("r", 1))
        assert len(bench.runner.calls) == calls


def test_a_request_without_streams_is_told_its_end_too(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"), EndIn("r"))
        assert bench.runner.calls[-1] == ("r", [], True)


def test_a_row_that_waits_for_its_place_takes_nothing_in() -> None:
    bench = Bench(max_rows=1)
    with bench.sim as sim:
        sim.give(new("first"), new("second"))
        assert sim.give(chunk("second", 1), EndIn("second")) == [], "no credits: its sender is held back"
        out = bench.report(gain("first", finish="stop"))
        assert ConsumedOut("second", "above", 1) in out
        assert bench.runner.calls[-1] == ("second", [1], True)


def test_a_row_whose_listener_is_slow_takes_nothing_in(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=1))
        bench.report(gain("r", 7))
        assert sim.give(chunk("r", 1)) == []
        assert sim.give(CreditIn("r", 1)) == [ConsumedOut("r", "above", 1)]
        assert bench.engine.tokens("r") == [1]
        assert [call[0] for call in bench.engine.calls] == ["add", "pause", "resume"]


def test_what_taking_in_emits_is_sent_and_pauses_the_row_when_credits_end(bench: Bench) -> None:
    bench.runner.react["r"] = lambda work: RowOutcome([Emit({"seen": len(work.chunks)})] if work.chunks else [])
    with bench.sim as sim:
        sim.give(new("r", credits=1))
        assert data(sim.give(chunk("r", 1)), "r") == [{"seen": 1}]
        assert data(sim.give(chunk("r", 2)), "r") == [], "there is no credit any more"
        assert ("pause", "r") in bench.engine.calls
        assert data(sim.give(CreditIn("r", 1)), "r") == [{"seen": 1}]


def test_what_has_come_for_a_row_meanwhile_goes_in_together(bench: Bench) -> None:
    """Into all rows with one call: it may ask the device, and text can come faster than that answers. The row's end is
    no push of its own."""
    with bench.sim as sim:
        sim.give(new("one"), new("two"))
        sim.give(chunk("one", 1), chunk("two", 1), chunk("one", 2), EndIn("one"), chunk("two", 2))
        assert bench.runner.calls[2:] == [("one", [1, 2], True), ("two", [1, 2], False)]
        assert bench.runner.batches == [["one", "two"], ["one", "two"]]


def test_a_call_that_fails_fails_those_that_it_was_for(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("other"), new("one"), new("two"))
        bench.runner.broken = True
        out = sim.give(chunk("one", 1), chunk("two", 1))
        assert sorted(failed.request_id for failed in of_type(FailedOut, out)) == ["one", "two"]
        bench.runner.broken = False
        sim.give(chunk("other", 2))
        assert bench.engine.tokens("other") == [2]


def test_what_the_engine_has_made_goes_out_before_what_has_come_goes_in(bench: Bench) -> None:
    """However much comes: else speech would be late for text that nobody waits for."""
    bench.runner.react["listens"] = lambda work: RowOutcome([Emit({"seen": len(work.chunks)})] if work.chunks else [])
    with bench.sim as sim:
        sim.give(new("speaks"), new("listens"))
        bench.engine.reports = deque([[gain("speaks", 7)]])
        out = sim.give(chunk("listens", 1), chunk("listens", 2), Wake())
        assert [each.request_id for each in out if isinstance(each, StreamOut)] == ["speaks", "listens"]


def test_a_result_while_taking_in_ends_the_row_early(bench: Bench) -> None:
    bench.runner.react["r"] = lambda work: RowOutcome(result={"nothing": True} if work.ended else None)
    with bench.sim as sim:
        sim.give(new("r"))
        out = sim.give(EndIn("r"))
        assert ends(out, "r") == [ResultOut("r", {"nothing": True})]
        assert ("remove", "r") in bench.engine.calls
        bench.report(gain("r", finish="removed"))
        assert nothing_held(sim.scheduler.stats())


def test_a_row_that_begins_without_credits_begins_with_the_first(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r", credits=0))
        sim.give(CreditIn("r", 1))
        assert bench.runner.calls == [("r", [], False)]


def test_an_emit_and_a_result_keep_their_order_without_credits(bench: Bench) -> None:
    bench.runner.react["r"] = lambda work: RowOutcome([Emit({"x": 1})], {"done": True}) if work.ended else RowOutcome()
    with bench.sim as sim:
        sim.give(new("r", credits=0), EndIn("r"))
        assert bench.runner.calls == [], "what it would emit could not be sent"
        out = sim.give(CreditIn("r", 1))
        assert out == [StreamOut("r", {"x": 1}, None), ResultOut("r", {"done": True})]


def explode(work: Work[str]) -> RowOutcome:
    if work.chunks:
        raise RuntimeError("boom")
    return RowOutcome()


@pytest.mark.parametrize("fault", ["runner", "engine", "told"])
def test_input_that_fails_fails_its_row_alone(bench: Bench, fault: str) -> None:
    token = 1
    match fault:
        case "runner":
            bench.runner.react["bad"] = explode
        case "engine":
            token = -1
        case "told":
            bench.runner.react["bad"] = lambda work: RowOutcome(
                error=OmniError("invalid_value", "no") if work.chunks else None
            )
    with bench.sim as sim:
        sim.give(new("bad"), new("good"))
        out = sim.give(chunk("bad", token), chunk("good", 2))
        assert len(of_type(FailedOut, out, "bad")) == len(ends(out, "bad")) == 1
        assert ("remove", "bad") in bench.engine.calls
        assert bench.engine.tokens("good") == [2]
        assert sim.give(chunk("bad", 3)) == [], "it is not known any more"
        bench.report(gain("bad", finish="removed"), gain("good", finish="stop"))
        assert nothing_held(sim.scheduler.stats())


def test_what_comes_for_an_aborted_row_is_dropped(bench: Bench) -> None:
    with bench.sim as sim:
        sim.give(new("r"))
        sim.give(AbortIn("r"), chunk("r", 1), EndIn("r"))
        assert bench.engine.tokens("r") == []
        bench.report(gain("r", finish="removed"))
        assert nothing_held(sim.scheduler.stats())


def test_a_streamed_runner_needs_an_engine_that_takes_streams() -> None:
    with pytest.raises(OmniError) as raised:
        Simulation(lambda outbox, clock: make(FedRunner(), ScriptedEngine(), 1, outbox, clock))
    assert raised.value.code == "invalid_pipeline"


def test_a_runner_without_streams_is_not_asked() -> None:
    """Any engine serves it."""
    engine = FedEngine()
    with Simulation(lambda outbox, clock: make(Runner(), engine, 1, outbox, clock)) as sim:
        sim.give(new("r"), EndIn("r"))
        assert engine.fed == []
        assert isinstance(sim.scheduler, OmniScheduler)
