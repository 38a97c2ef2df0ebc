"""A stage between its edges and a scheduler of any kind, here one that the test plays itself."""

from __future__ import annotations

import asyncio
import queue
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.nodes import Cluster, Recorder, idle, tensor
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.spec import PipelineSpec, StageSpec
from voice_omni.pipeline.stage import Stage
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import (
    Abort,
    AbortAck,
    Credit,
    Deliver,
    End,
    Message,
    Open,
    RequestFailed,
    StageDone,
)
from voice_omni.proto.payload import CLIENT, OmniRequest
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    FailedOut,
    Incoming,
    New,
    Outbox,
    Outgoing,
    ResultOut,
    StreamOut,
)

LARGE = 20_000
"""Does not ride in a control message; three fit into the relay's buffer."""


class Options(msgspec.Struct):
    pass


def stage_spec(name: str, **edges: Any) -> StageSpec:
    return StageSpec(name, "simple", "module:function", Options, **edges)


SPEC = PipelineSpec(
    name="knot",
    description="every kind of edge meets in 'join'",
    stages=(
        stage_spec("left", payload_to=("join",)),
        stage_spec("right", payload_to=("join",)),
        stage_spec("feed", stream_to=("join",)),
        stage_spec("join", payload_to=("after",), stream_to=("out",), terminal=True, input_stream=True),
        stage_spec("after", terminal=True),
        stage_spec("out", terminal=True),
    ),
    routes={
        "full": ("left", "right", "feed", "join", "after", "out"),
        "fed": ("feed", "join", "out"),
        "alone": ("join",),
    },
    input_sample_rate=1000,
    output_sample_rate=1000,
)
CREDITS = 5


class Scripted:
    """The scheduler: what it was told can be read, what it says is what the test says."""

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Incoming] = queue.SimpleQueue()
        self.outbox: Outbox

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def abort(self, request_id: str) -> None:
        self.inbox.put(AbortIn(request_id))

    def stats(self) -> dict[str, int]:
        return {"inbox": self.inbox.qsize()}

    def told(self) -> list[Incoming]:
        taken = []
        while not self.inbox.empty():
            taken.append(self.inbox.get_nowait())
        return taken


class Bench:
    """The stage ``join`` on a node of its own; every other stage is a recorder on a node ``there``."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = Recorder()
        self.others = {stage.name: Recorder() for stage in SPEC.stages if stage.name != "join"}
        self.scheduler = Scripted()
        self.now = 0.0
        self.stage: Stage

    async def start(self) -> None:
        (await self.cluster.start(MAIN)).attach(CLIENT, self.client)
        here = await self.cluster.start("here")
        there = await self.cluster.start("there")
        for name, other in self.others.items():
            there.attach(name, other)
        self.stage = Stage("join", Topology(SPEC), self.scheduler, here, credits=CREDITS, clock=lambda: self.now)
        here.attach("join", self.stage)
        self.cluster.introduce(MAIN, "here", "there")
        await self.cluster.settle()

    # -- to the stage ----------------------------------------------------------------------------------------------

    def receive(self, *messages: Message) -> None:
        """As if they had come in from the node."""
        for message in messages:
            if isinstance(message, Deliver):
                self.stage.on_deliver(message, None)
            else:
                self.stage.on_message(message)

    async def send(self, message: Deliver) -> None:
        """A large one, through the relay."""
        node = MAIN if message.source == CLIENT else "there"
        (await self.cluster.nodes[node].prepare("here", message))("join")

    def say(self, *messages: Outgoing) -> None:
        """As if the scheduler had put them out."""
        for message in messages:
            self.stage.on_outgoing(message)

    def told(self) -> list[Incoming]:
        return self.scheduler.told()

    async def begun(self, route: str = "alone", request_id: str = "r") -> None:
        """A request that has reached the scheduler."""
        self.receive(opening(CLIENT, route, request_id))
        if route == "full":
            self.receive(result("left", 0, {}, request_id), result("right", 0, {}, request_id))
        assert isinstance(self.told()[0], New)

    # -- from the stage --------------------------------------------------------------------------------------------

    async def answers(self) -> list[Message]:
        """What has come to the coordinator by now."""
        await self.cluster.settle()
        return self.client.messages

    async def empty(self) -> bool:
        await self.cluster.settle()
        return not any(self.stage.stats().values()) and all(idle(node) for node in self.cluster.nodes.values())


def header(route: str = "alone", request_id: str = "r") -> OmniRequest:
    return OmniRequest(request_id=request_id, route=route, params={"voice": "joe"})


BINDINGS = {"join": "here", **{stage.name: "there" for stage in SPEC.stages if stage.name != "join"}}


def opening(source: str, route: str = "alone", request_id: str = "r") -> Open:
    return Open(header(route, request_id), source, {name: BINDINGS[name] for name in SPEC.routes[route]})


def chunk(source: str, seq: int, data: Any = None, request_id: str = "r") -> Deliver:
    return Deliver(request_id, source, seq, "chunk", {"x": seq} if data is None else data)


def result(source: str, seq: int, data: Any, request_id: str = "r") -> Deliver:
    return Deliver(request_id, source, seq, "result", data)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Cluster(tmp_path, inline_bytes=1 << 10, relay_bytes=1 << 16) as cluster:
        made = Bench(cluster)
        await made.start()
        yield made


# -- in ----------------------------------------------------------------------------------------------------------------


async def test_a_request_without_payload_sources_begins_when_it_opens(bench: Bench) -> None:
    bench.receive(opening(CLIENT))
    [new] = bench.told()
    assert isinstance(new, New)
    assert new.payload.request == header()
    assert new.payload.results == {}
    assert new.credits == CREDITS


async def test_chunks_reach_the_scheduler_and_the_end_comes_when_all_streams_have_ended(bench: Bench) -> None:
    await bench.begun("fed")
    bench.receive(chunk("feed", 0), chunk(CLIENT, 0), chunk("feed", 1), End("r", "feed", 2))
    told = bench.told()
    assert told == [ChunkIn("r", "feed", {"x": 0}), ChunkIn("r", CLIENT, {"x": 0}), ChunkIn("r", "feed", {"x": 1})]
    bench.receive(End("r", CLIENT, 1))
    assert bench.told() == [EndIn("r")]


async def test_each_source_opens_it_and_it_begins_once(bench: Bench) -> None:
    bench.receive(opening("feed", "fed"), opening(CLIENT, "fed"), chunk("feed", 0), opening("feed", "fed"))
    assert [type(message) for message in bench.told()] == [New, ChunkIn]


async def test_chunks_wait_for_the_payload(bench: Bench) -> None:
    bench.receive(opening("feed", "full"), chunk("feed", 0), chunk(CLIENT, 0), opening("left", "full"))
    assert bench.told() == []
    assert bench.stage.stats()["held"] == 2
    bench.receive(result("left", 0, {"from": "left"}))
    assert bench.told() == []
    bench.receive(opening("right", "full"), result("right", 0, {"from": "right"}))
    new, *chunks = bench.told()
    assert isinstance(new, New)
    assert new.payload.results == {"left": {"from": "left"}, "right": {"from": "right"}}
    assert chunks == [ChunkIn("r", "feed", {"x": 0}), ChunkIn("r", CLIENT, {"x": 0})]
    assert bench.stage.stats()["held"] == 0


EDGES: dict[str, list[Message]] = {
    "left": [opening("left", "full"), result("left", 0, {"from": "left"})],
    "right": [opening("right", "full"), result("right", 0, {"from": "right"})],
    "feed": [opening("feed", "full"), chunk("feed", 0), chunk("feed", 1), End("r", "feed", 2)],
    CLIENT: [opening(CLIENT, "full"), chunk(CLIENT, 0), End("r", CLIENT, 1)],
}


@settings(max_examples=40, deadline=None)
@given(st.permutations([name for name, messages in EDGES.items() for _ in messages]))
def test_edges_may_interleave_in_any_way(turns: Sequence[str]) -> None:
    """Each edge keeps its own order; the scheduler gets the payload first, each stream in order, and one end."""

    async def scenario() -> list[Incoming]:
        with tempfile.TemporaryDirectory() as folder:
            async with Cluster(Path(folder)) as cluster:
                bench = Bench(cluster)
                node = await cluster.start("here")
                bench.stage = Stage("join", Topology(SPEC), bench.scheduler, node, credits=CREDITS)
                left = {name: list(messages) for name, messages in EDGES.items()}
                for name in turns:
                    bench.receive(left[name].pop(0))
                return bench.told()

    new, *rest = asyncio.run(scenario())
    assert isinstance(new, New)
    assert new.payload.results == {"left": {"from": "left"}, "right": {"from": "right"}}
    assert rest[-1] == EndIn("r")
    assert rest.count(EndIn("r")) == 1
    for name in ("feed", CLIENT):
        chunks = [message.data["x"] for message in rest if isinstance(message, ChunkIn) and message.source == name]
        assert chunks == list(range(len(EDGES[name]) - 2))


async def test_tensors_out_of_the_relay_keep_their_place_among_the_others(bench: Bench) -> None:
    await bench.begun("fed")
    for seq in range(6):
        if seq % 3 == 2:
            bench.cluster.nodes["there"].prepare_now("here", chunk("feed", seq))("join")
        else:
            await bench.send(chunk("feed", seq, tensor(LARGE if seq % 2 else 5000, seq)))
    await bench.cluster.settle()
    order = [int(np.ravel(message.data["x"])[0]) for message in bench.told() if isinstance(message, ChunkIn)]
    assert order == list(range(6))
    bench.say(ResultOut("r", {}))
    bench.receive(End("r", "feed", 6))
    assert await bench.empty()


@pytest.mark.parametrize(
    "late", [chunk("feed", 2), chunk("feed", 0), End("r", "feed", 5)], ids=["a gap", "a repetition", "an early end"]
)
async def test_a_message_out_of_sequence_fails_the_request(bench: Bench, late: Message) -> None:
    await bench.begun("fed")
    bench.receive(chunk("feed", 0), late)
    assert bench.told() == [ChunkIn("r", "feed", {"x": 0})]
    [failure] = await bench.answers()
    assert isinstance(failure, RequestFailed)
    assert (failure.stage, failure.error.code, failure.error.request_id) == ("join", "protocol_error", "r")


async def test_a_tensor_whose_sender_died_before_it_was_read_fails_the_request(bench: Bench) -> None:
    await bench.begun("fed")
    there = bench.cluster.nodes["there"]
    send = await there.prepare("here", chunk("feed", 0, tensor(LARGE)))
    bench.cluster.nodes["here"].peer_down("there", 0)
    send("join")
    failure = await bench.client.first(RequestFailed)
    assert (failure.error.code, failure.error.retryable) == ("stage_died", True)


# -- credits -----------------------------------------------------------------------------------------------------------


async def test_what_the_scheduler_has_consumed_is_credited_to_its_sender(bench: Bench) -> None:
    await bench.begun("fed")
    bench.receive(chunk("feed", 0), chunk("feed", 1), chunk(CLIENT, 0))
    bench.say(ConsumedOut("r", "feed", 2), ConsumedOut("r", CLIENT, 1))
    assert await bench.answers() == [Credit("r", "join", 1)]
    assert bench.others["feed"].messages == [Credit("r", "join", 2)]


async def test_an_emit_is_credited_when_its_slowest_reader_has_consumed_it(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(*(StreamOut("r", {"x": number}, None) for number in range(4)))
    bench.receive(Credit("r", "out", 3))
    assert bench.told() == []
    bench.receive(Credit("r", CLIENT, 2))
    bench.receive(Credit("r", CLIENT, 2))
    bench.receive(Credit("r", "out", 1))
    assert bench.told() == [CreditIn("r", 2), CreditIn("r", 1), CreditIn("r", 1)]


async def test_an_emit_that_nobody_on_this_route_reads_is_credited_at_once(bench: Bench) -> None:
    await bench.begun("alone")
    bench.say(StreamOut("r", {"x": 1}, ("out",)))
    assert bench.told() == [CreditIn("r", 1)]
    assert await bench.answers() == []


# -- out ---------------------------------------------------------------------------------------------------------------


async def test_the_first_use_of_an_edge_opens_the_request_behind_it(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(StreamOut("r", {"x": 0}, None), StreamOut("r", {"x": 1}, ("out",)), StreamOut("r", {"x": 2}, (CLIENT,)))
    assert await bench.answers() == [chunk("join", 0), Deliver("r", "join", 1, "chunk", {"x": 2})]
    assert bench.others["out"].messages == [opening("join", "fed"), chunk("join", 0), chunk("join", 1)]


async def test_a_result_ends_the_streams_and_then_the_stage_is_done(bench: Bench) -> None:
    bench.now = 1.0
    await bench.begun("full")
    bench.now = 2.0
    bench.receive(End("r", "feed", 0), End("r", CLIENT, 0))
    bench.now = 3.0
    bench.say(StreamOut("r", {"x": 0}, None))
    bench.now = 4.0
    bench.say(StreamOut("r", {"x": 1}, None), ResultOut("r", {"y": 1}))
    assert await bench.answers() == [
        chunk("join", 0),
        chunk("join", 1),
        result("join", 2, {"y": 1}),
        StageDone("r", "join", 1.0, 2.0, 3.0, 4.0, {"there": 0}),
    ]
    assert bench.others["out"].messages == [
        opening("join", "full"),
        chunk("join", 0),
        chunk("join", 1),
        End("r", "join", 2),
    ]
    assert bench.others["after"].messages == [opening("join", "full"), result("join", 0, {"y": 1})]
    bench.told()
    assert await bench.empty()


async def test_large_and_small_output_keeps_its_order(bench: Bench) -> None:
    """More large chunks than the relay holds: what comes behind them waits, and the stage is done when all are out."""
    await bench.begun("fed")
    out = bench.others["out"]
    for seq in range(9):
        data = tensor(LARGE, seq) if seq % 3 else {"x": np.full(1, seq, np.uint8)}
        bench.say(StreamOut("r", data, ("out",)))
    bench.say(ResultOut("r", {}))
    bench.receive(End("r", "feed", 0))
    await bench.cluster.settle()
    assert not bench.client.of(StageDone), "writes are still under way"
    for position in range(1, 10):
        await out.count(position + 1)
        message, parcel = out.messages[position], out.parcels[position]
        assert isinstance(message, Deliver)
        assert message.seq == position - 1
        data = message.body if parcel is None else await parcel.open()
        assert data["x"][0] == message.seq
    await out.count(11)
    assert out.messages[-1] == End("r", "join", 9)
    await bench.client.first(StageDone)
    bench.told()
    assert await bench.empty()


async def test_output_that_is_too_large_fails_its_request_and_holds_up_no_other(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.begun("fed", "other")
    bench.say(StreamOut("r", tensor(1 << 17), ("out",)), StreamOut("other", tensor(LARGE), ("out",)))
    await bench.others["out"].until(lambda: len(bench.others["out"].of(Deliver)) == 1)
    failure = await bench.client.first(RequestFailed)
    assert (failure.request_id, failure.error.code, failure.error.stage) == ("r", "payload_too_large", "join")
    assert bench.others["out"].of(Deliver)[0].request_id == "other"


async def test_output_that_cannot_travel_fails_its_request_and_holds_up_no_other(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.begun("fed", "other")
    bench.say(StreamOut("r", {"x": object()}, None), StreamOut("other", {"x": 0}, ("out",)))
    failure = await bench.client.first(RequestFailed)
    assert (failure.request_id, failure.error.code) == ("r", "unsupported_type")
    await bench.cluster.settle()
    assert [message.request_id for message in bench.others["out"].of(Deliver)] == ["other"]


async def test_what_fails_in_the_scheduler_is_reported_and_forgotten(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(FailedOut("r", OmniError("invalid_value", "no", param="text")))
    failure = await bench.client.first(RequestFailed)
    error = failure.error
    assert (error.code, error.stage, error.request_id, error.param) == ("invalid_value", "join", "r", "text")
    bench.receive(chunk("feed", 0), opening("feed", "fed"), End("r", "feed", 1), Credit("r", CLIENT, 1))
    assert await bench.empty()


async def test_a_result_before_the_input_has_ended_lets_the_sender_finish(bench: Bench) -> None:
    """All that it has sent and will send is credited, though nobody reads it; the stage is done when it has ended."""
    await bench.begun("fed")
    bench.receive(*(chunk("feed", seq) for seq in range(3)), chunk(CLIENT, 0))
    bench.say(ConsumedOut("r", "feed", 1), ResultOut("r", {}))
    bench.told()
    bench.receive(chunk("feed", 3))
    await bench.cluster.settle()
    credits = bench.others["feed"].of(Credit)
    assert sum(credit.count for credit in credits) == 4
    assert not bench.client.of(StageDone)
    bench.receive(End("r", "feed", 4))
    await bench.client.first(StageDone)
    assert bench.told() == []
    assert await bench.empty()


async def test_the_client_need_not_end_its_input_for_a_stage_to_be_done(bench: Bench) -> None:
    await bench.begun("alone")
    bench.say(ResultOut("r", {}))
    await bench.client.first(StageDone)
    assert await bench.empty()


# -- aborts ------------------------------------------------------------------------------------------------------------

ACK = AbortAck("r", "join", "here")


async def test_an_abort_of_an_unknown_request_is_acknowledged_and_what_comes_later_is_dropped(bench: Bench) -> None:
    bench.receive(Abort("r"), opening(CLIENT), chunk(CLIENT, 0), End("r", CLIENT, 1), Credit("r", CLIENT, 1))
    assert await bench.answers() == [ACK]
    assert bench.told() == []
    assert await bench.empty()


async def test_tensors_of_an_aborted_request_still_give_their_room_back(bench: Bench) -> None:
    bench.receive(Abort("r"))
    for seq in range(5):
        await bench.send(chunk("feed", seq, tensor(LARGE)))
    assert await bench.empty()


async def test_an_abort_while_it_waits_for_its_payload_needs_no_scheduler(bench: Bench) -> None:
    bench.receive(opening("feed", "full"), chunk("feed", 0), Abort("r"), result("left", 0, {}), result("right", 0, {}))
    assert await bench.answers() == [ACK]
    assert bench.told() == []
    assert await bench.empty()


@pytest.mark.parametrize(
    "last",
    [AbortedOut("r"), ResultOut("r", {"y": 1}), FailedOut("r", OmniError("internal_error", "x"))],
    ids=lambda message: type(message).__name__,
)
async def test_a_running_request_is_acknowledged_when_the_scheduler_has_let_go(bench: Bench, last: Outgoing) -> None:
    """Whatever it says last: a result or a failure may have been faster than the abort."""
    await bench.begun("fed")
    bench.receive(Abort("r"), Abort("r"))
    assert bench.told() == [AbortIn("r")]
    bench.say(StreamOut("r", {"x": 0}, None), ConsumedOut("r", "feed", 1))
    bench.receive(chunk("feed", 0))
    assert await bench.answers() == []
    bench.say(last)
    assert await bench.answers() == [ACK]
    assert bench.others["out"].messages == []
    assert bench.told() == []
    assert await bench.empty()


async def test_an_abort_while_it_writes_cancels_the_writes(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(*(StreamOut("r", tensor(LARGE, seq), ("out",)) for seq in range(6)))
    await bench.others["out"].count(4)
    bench.receive(Abort("r"))
    bench.say(AbortedOut("r"))
    bench.told()
    assert await bench.answers() == [ACK]
    for parcel in bench.others["out"].parcels:
        if parcel is not None:
            parcel.drop()
    await bench.cluster.settle()
    assert len(bench.others["out"].of(Deliver)) == 3, "those that had room; the others were never sent"
    assert await bench.empty()


async def test_an_abort_while_the_last_writes_are_under_way_is_acknowledged_at_once(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(*(StreamOut("r", tensor(LARGE, seq), ("out",)) for seq in range(6)), ResultOut("r", {}))
    bench.receive(End("r", "feed", 0))
    await bench.others["out"].count(4)
    bench.told()
    bench.receive(Abort("r"))
    answers = await bench.answers()
    assert [message for message in answers if not isinstance(message, Deliver)] == [ACK]
    assert bench.told() == []
    for parcel in bench.others["out"].parcels:
        if parcel is not None:
            parcel.drop()
    assert await bench.empty()
    assert not bench.client.of(StageDone)


async def test_an_abort_after_the_end_is_acknowledged_all_the_same(bench: Bench) -> None:
    await bench.begun("alone")
    bench.say(ResultOut("r", {}))
    bench.receive(Abort("r"))
    answers = await bench.answers()
    assert [type(message) for message in answers] == [Deliver, StageDone, AbortAck]


async def test_a_request_beside_an_aborted_one_goes_on(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.begun("fed", "other")
    bench.receive(Abort("r"), chunk("feed", 0, request_id="other"))
    assert bench.told() == [AbortIn("r"), ChunkIn("other", "feed", {"x": 0})]


# -- deaths ------------------------------------------------------------------------------------------------------------


async def test_requests_that_were_handed_to_a_dead_node_are_reported(bench: Bench) -> None:
    for request_id in ("handed", "not yet"):
        await bench.begun("fed", request_id)
    bench.say(StreamOut("handed", {"x": 0}, ("out",)))
    await bench.cluster.settle()
    await bench.cluster.kill("there", tell=("here", MAIN))
    [failure] = [message for message in await bench.answers() if isinstance(message, RequestFailed)]
    error = failure.error
    assert (failure.request_id, error.code, error.stage, error.retryable) == ("handed", "stage_died", "out", True)


async def test_an_edge_that_is_first_used_while_its_node_is_down_waits_for_the_next(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.cluster.kill("there", tell=("here", MAIN))
    await bench.cluster.settle()
    bench.say(StreamOut("r", {"x": 0}, ("out",)), StreamOut("r", tensor(LARGE, 1), ("out",)))
    out = Recorder()
    (await bench.cluster.start("there", 1)).attach("out", out)
    bench.cluster.introduce(MAIN, "here", "there")
    await out.count(3)
    assert [type(message) for message in out.messages] == [Open, Deliver, Deliver]
    parcel = out.parcels[-1]
    assert parcel is not None
    assert (await parcel.open())["x"][0] == 1
    assert not bench.client.of(RequestFailed)
