"""A coordinator whose stages are played by the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.nodes import PATIENCE_S, Cluster, Recorder, idle
from tests.support.toy import PIPELINE
from voice_omni.config.settings import LimitSettings
from voice_omni.pipeline.binding import Binder, Replicas
from voice_omni.pipeline.coordinator import Coordinator, RequestHandle
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.request import StageOutput
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import (
    Abort,
    AbortAck,
    Deliver,
    Message,
    StageDone,
)
from voice_omni.proto.payload import CLIENT, OmniRequest

PROCESSES = {
    "front": Replicas(("listen", "think"), ("front.0",)),
    "voice": Replicas(("speak", "vocode"), ("voice.0",)),
}
NODE_OF = {"listen": "front.0", "think": "front.0", "speak": "voice.0", "vocode": "voice.0"}
SPEECH = ("listen", "think", "speak", "vocode")
TERMINALS = ("listen", "think", "vocode")
LARGE = 20_000
CREDITS = 3
SOON = 0.02
"""Seconds; for deadlines that are meant to pass."""


class Bench:
    """A coordinator on the main node; the stages are recorders on two others, which acknowledge aborts if asked to."""

    def __init__(self, cluster: Cluster, **limits: Any) -> None:
        self.cluster = cluster
        self.limits = LimitSettings(**limits)
        self.stages: dict[str, Recorder] = {}
        self.acknowledging = True
        self.coordinator: Coordinator
        self._sequence: dict[tuple[str, str], int] = {}

    async def start(self) -> Bench:
        main = await self.cluster.start(MAIN)
        self.coordinator = Coordinator(
            Topology(PIPELINE), main, Binder(PROCESSES), dict.fromkeys(SPEECH, CREDITS), self.limits
        )
        main.attach(CLIENT, self.coordinator)
        for name in ("front.0", "voice.0"):
            await self.bring_up(name)
        return self

    async def bring_up(self, name: str, incarnation: int = 0) -> None:
        node = await self.cluster.start(name, incarnation)
        for stage in SPEECH:
            if NODE_OF[stage] == name:
                self.stages[stage] = Recorder()
                self.stages[stage].react = lambda message, stage=stage: self._react(stage, message)
                node.attach(stage, self.stages[stage])
        self.cluster.introduce(*self.cluster.nodes)
        await self.cluster.settle()
        self.coordinator.node_up(name)

    def _react(self, stage: str, message: Message) -> None:
        if isinstance(message, Abort) and self.acknowledging:
            self.say(stage, AbortAck(message.request_id, stage, NODE_OF[stage]))

    # -- as the stages ---------------------------------------------------------------------------------------------

    def say(self, stage: str, *messages: Message) -> None:
        for message in messages:
            self.cluster.nodes[NODE_OF[stage]].send(MAIN, CLIENT, message)

    async def deliver(self, stage: str, data: dict[str, Any], kind: Any = "chunk", request_id: str = "r") -> None:
        seq = self._sequence.get((request_id, stage), 0)
        self._sequence[request_id, stage] = seq + 1
        node = self.cluster.nodes[NODE_OF[stage]]
        (await node.prepare(MAIN, Deliver(request_id, stage, seq, kind, data)))(CLIENT)

    async def finish(self, *stages: str, request_id: str = "r", handed_to: dict[str, int] | None = None) -> None:
        for stage in stages:
            if stage in TERMINALS:
                await self.deliver(stage, {"by": stage}, "result", request_id)
            self.say(stage, done(stage, request_id, handed_to))

    async def die(self, name: str, *, told: bool = True) -> None:
        others = tuple(other for other in self.cluster.nodes if other != name)
        await self.cluster.kill(name, tell=others if told else ())
        await self.cluster.settle()

    # -- as the client ---------------------------------------------------------------------------------------------

    async def submit(self, route: str = "speech", request_id: str = "r", **params: Any) -> RequestHandle:
        return await self.coordinator.submit(OmniRequest(request_id=request_id, route=route, params=params))

    async def settle(self) -> None:
        await self.cluster.settle()

    async def empty(self) -> bool:
        await self.settle()
        return not any(self.coordinator.stats().values()) and all(idle(node) for node in self.cluster.nodes.values())

    def aborted(self) -> set[str]:
        """The stages that were told to stop."""
        return {name for name, stage in self.stages.items() if stage.of(Abort)}


def done(stage: str, request_id: str = "r", handed_to: dict[str, int] | None = None) -> StageDone:
    return StageDone(request_id, stage, 1.0, 2.0, 3.0, 4.0, handed_to or {})


async def everything(handle: RequestHandle) -> list[StageOutput]:
    async with asyncio.timeout(PATIENCE_S):
        return [output async for output in handle]


async def failure(handle: RequestHandle) -> OmniError:
    with pytest.raises(OmniError) as raised:
        await everything(handle)
    return raised.value
