"""A stage between its edges and a scheduler of any kind, here one that the test plays itself."""

from __future__ import annotations

import queue
from typing import Any

import msgspec

from tests.support.nodes import Cluster, Recorder, idle
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.spec import PipelineSpec, StageSpec
from voice_omni.pipeline.stage import Stage
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.messages import Deliver, Message, Open
from voice_omni.proto.payload import CLIENT, OmniRequest
from voice_omni.scheduling.interface import AbortIn, Incoming, New, Outbox, Outgoing

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
