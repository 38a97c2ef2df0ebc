"""The life of a request: admission, its binding to replicas, output, failure, and an abort that is acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from voice_omni.config.settings import LimitSettings
from voice_omni.pipeline.binding import Binder
from voice_omni.pipeline.intake import Intake
from voice_omni.pipeline.lanes import Lane
from voice_omni.pipeline.node import Node, Parcel
from voice_omni.pipeline.request import RequestRecord, RequestState, StageOutput
from voice_omni.pipeline.signal import Signal
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
from voice_omni.proto.payload import CLIENT, Data, OmniRequest

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Input:
    """The client's stream into one stage."""

    stage: str
    node: str
    credits: int
    sequence: int = 0
    ended: bool = False
    lane: Lane[Callable[[], None]] = field(default_factory=lambda: Lane(lambda send: send()))


class RequestHandle:
    """The client's end of one request.

    Iterating gives the chunks of all terminal stages in the order in which they came, and ends when the request has
    completed or was aborted; it raises :class:`OmniError` when the request has failed. Taking a chunk returns its
    credit, so a client that stops taking pauses the stages behind it.
    """

    def __init__(self, coordinator: Coordinator, record: RequestRecord, inputs: list[_Input]) -> None:
        self._coordinator = coordinator
        self._inputs = inputs
        self.record = record
        self.signal = Signal()

    @property
    def request_id(self) -> str:
        return self.record.request_id

    async def append(self, data: Data) -> None:
        """Stream a chunk in; waits for a credit. Chunks for a request that has ended are dropped.

        Read the output meanwhile: a stage whose output nobody takes stops taking input.
        """
        for stream in self._inputs:
            await self.signal.wait_until(lambda: stream.credits > 0 or self._closed(stream))  # noqa: B023
            if not self._closed(stream):
                stream.credits -= 1
                await self._coordinator.send_input(self.record, stream, data)

    async def end_input(self) -> None:
        for stream in self._inputs:
            if not self._closed(stream):
                stream.ended = True
                self._coordinator.end_input(self.record, stream)

    def _closed(self, stream: _Input) -> bool:
        return stream.ended or self.record.state.final or stream.stage in self.record.done

    def grant(self, stage: str, count: int) -> None:
        for stream in self._inputs:
            if stream.stage == stage:
                stream.credits += count
        self.signal.notify()

    def __aiter__(self) -> AsyncIterator[StageOutput]:
        return self

    async def __anext__(self) -> StageOutput:
        record = self.record
        await self.signal.wait_until(lambda: bool(record.output) or record.state.final)
        if record.output:
            output = record.output.popleft()
            self._coordinator.taken(record, output.stage)
            return output
        if record.state is RequestState.FAILED and record.error is not None:
            raise record.error
        raise StopAsyncIteration

    async def abort(self) -> None:
        """Stop the request. Its iteration ends at once; returns when every stage has acknowledged."""
        await self._coordinator.abort(self)


@dataclass(slots=True)
class _Ending:
    """An abort that is under way: the nodes' stages that have not acknowledged it."""

    missing: set[tuple[str, str]]
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Coordinator:
    """Admits requests and follows them through the stages. Lives in the main node, as the stages' client."""

    def __init__(
        self, topology: Topology, node: Node, binder: Binder, credits: Mapping[str, int], limits: LimitSettings
    ) -> None:
        self._topology = topology
        self._node = node
        self._binder = binder
        self._credits = credits
        self._limits = limits
        self._handles: dict[str, RequestHandle] = {}
        self._lanes: dict[tuple[str, str], Lane[Deliver | StageDone]] = {}
        self._lifetimes: dict[str, asyncio.TimerHandle] = {}
        self._endings: dict[str, _Ending] = {}
        self._nodes_changed = Signal()
        self._intake = Intake(node, self._fail)
        self.counts: Counter[str] = Counter()

    def stats(self) -> dict[str, int]:
        """Counts that are 0 when nothing is under way."""
        return {
            "requests": len(self._handles),
            "aborting": len(self._endings),
            "lanes": len(self._lanes),
            "output": sum(len(handle.record.output) for handle in self._handles.values()),
        }

    # -- admission -----------------------------------------------------------------------------------------------

    async def submit(self, request: OmniRequest) -> RequestHandle:
        """Admit a request, waiting for a stage that is being restarted.

        Raises :class:`OmniError`: ``overloaded`` or ``stage_unavailable`` (both retryable), ``unsupported_route``,
        ``unsupported_type`` (a header that cannot travel).
        """
        route = self._topology.stages_of(request.route)
        self._check_room()
        try:
            async with asyncio.timeout(self._limits.restart_wait_s):
                await self._nodes_changed.wait_until(lambda: not self._binder.missing(route))
        except TimeoutError:
            missing = ", ".join(self._binder.missing(route))
            raise OmniError("stage_unavailable", f"no process runs the stage {missing}", retryable=True) from None
        self._check_room()
        bindings = self._binder.bind(route)
        record = RequestRecord(request, route, self._topology.terminals(request.route), bindings)
        inputs = [
            _Input(stage, bindings[stage], self._credits[stage]) for stage in self._topology.inputs(request.route)
        ]
        handle = RequestHandle(self, record, inputs)
        self._handles[request.request_id] = handle
        self.counts["submitted"] += 1
        loop = asyncio.get_running_loop()
        self._lifetimes[request.request_id] = loop.call_later(
            self._limits.request_deadline_s, self._fail, request.request_id, self._overdue()
        )
        try:
            for stage in self._topology.entries(request.route):
                self._node.send(bindings[stage], stage, Open(request, CLIENT, bindings))
        except OmniError as error:
            self._fail(request.request_id, error)
            raise
        return handle

    def _check_room(self) -> None:
        if len(self._handles) >= self._limits.max_requests:
            self.counts["refused"] += 1
            limit = self._limits.max_requests
            raise OmniError("overloaded", f"the server answers {limit} requests already, its limit", retryable=True)

    def _overdue(self) -> OmniError:
        return OmniError("deadline_exceeded", f"the request took longer than {self._limits.request_deadline_s:g} s")

    # -- the client's side ---------------------------------------------------------------------------------------

    async def send_input(self, record: RequestRecord, stream: _Input, data: Data) -> None:
        """A chunk that cannot travel (``payload_too_large``, ``unsupported_type``) fails the request."""
        message = Deliver(record.request_id, CLIENT, stream.sequence, "chunk", data)
        stream.sequence += 1
        place = stream.lane.reserve()
        ready: Callable[[], None] | None = None
        try:
            send = await self._node.prepare(stream.node, message)
            ready = partial(send, stream.stage)
        except OmniError as error:
            self._fail(record.request_id, error)
        finally:
            stream.lane.fill(place, ready)

    def end_input(self, record: RequestRecord, stream: _Input) -> None:
        end = End(record.request_id, CLIENT, stream.sequence)
        stream.lane.pass_through(partial(self._node.send, stream.node, stream.stage, end))

    def taken(self, record: RequestRecord, stage: str) -> None:
        if not record.state.final:
            self._node.send(record.bindings[stage], stage, Credit(record.request_id, CLIENT, 1))

    async def abort(self, handle: RequestHandle) -> None:
        """Ends the request at once for its client; returns when all stages have let go of it.

        Raises :class:`OmniError` ``deadline_exceeded`` if one has not acknowledged in time.
        """
        if handle.record.abort():
            self._end(handle, "aborted")
            handle.signal.notify()
        ending = self._endings.get(handle.request_id)
        if ending is None:
            return
        try:
            async with asyncio.timeout(self._limits.abort_deadline_s):
                await ending.settled.wait()
        except TimeoutError:
            late = ", ".join(sorted(stage for stage, _ in ending.missing))
            raise OmniError(
                "deadline_exceeded", f"no acknowledgement of the abort from {late}", request_id=handle.request_id
            ) from None

    # -- from the stages -----------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        match message:
            case Credit(request_id, stage, count):
                if handle := self._handles.get(request_id):
                    handle.grant(stage, count)
            case StageDone(request_id, stage):
                self._lane(request_id, stage).pass_through(message)
            case RequestFailed(request_id, _, info):
                self._fail(request_id, OmniError.of(info))
            case AbortAck(request_id, stage, node):
                self._acknowledged(request_id, {(stage, node)})
            case _:
                logger.error("the coordinator cannot handle a %s", type(message).__name__)

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        known = message.request_id in self._handles
        self._intake.take(self._lane(message.request_id, message.source) if known else None, message, parcel)

    def _lane(self, request_id: str, stage: str) -> Lane[Deliver | StageDone]:
        key = (request_id, stage)
        lane = self._lanes.get(key)
        if lane is None:
            lane = Lane(self._accept)
            if request_id in self._handles:
                self._lanes[key] = lane
        return lane

    def _accept(self, message: Deliver | StageDone) -> None:
        handle = self._handles.get(message.request_id)
        if handle is None:
            return
        record = handle.record
        if isinstance(message, StageDone):
            record.stage_done(message)
            self._check_handed_on(record, message)
        elif message.kind == "result":
            record.result(message.source, message.body)
        else:
            record.chunk(message.source, message.body)
        if record.state is RequestState.COMPLETED:
            self._forget(handle, "completed")
        handle.signal.notify()

    # -- ends ----------------------------------------------------------------------------------------------------

    def _fail(self, request_id: str, error: OmniError) -> None:
        handle = self._handles.get(request_id)
        if handle is None or error.info.stage in handle.record.done:
            return  # a stage that had finished with the request may die: nothing of it was lost
        if handle.record.fail(error.at(request_id=request_id)):
            logger.info("request %s failed: %s", request_id, error)
            self._end(handle, "failed")
            handle.signal.notify()

    def _end(self, handle: RequestHandle, how: str) -> None:
        """Broadcast the abort; the request stays known until every living stage has acknowledged.

        The others are told too: something that waits for their node to come back may still open the request there.
        """
        record = handle.record
        live = {(stage, node) for stage, node in record.bindings.items() if self._binder.is_live(node)}
        self._forget(handle, how)
        if live:
            self._endings[record.request_id] = _Ending(live)
        for stage, node in record.bindings.items():
            self._node.send(node, stage, Abort(record.request_id))

    def _forget(self, handle: RequestHandle, how: str) -> None:
        record = handle.record
        self.counts[how] += 1
        del self._handles[record.request_id]
        self._lifetimes.pop(record.request_id).cancel()
        self._binder.release(record.bindings)
        for stage in record.route:
            self._lanes.pop((record.request_id, stage), None)

    def _acknowledged(self, request_id: str, which: set[tuple[str, str]]) -> None:
        ending = self._endings.get(request_id)
        if ending is None:
            return
        ending.missing -= which
        if not ending.missing:
            del self._endings[request_id]
            ending.settled.set()

    # -- nodes come and go ---------------------------------------------------------------------------------------

    def node_up(self, node: str) -> None:
        self._binder.up(node)
        self._nodes_changed.notify()

    def _check_handed_on(self, record: RequestRecord, done: StageDone) -> None:
        """Fail what a stage has handed on to a node that had died: it did not know, and has forgotten the request."""
        up = self._node.incarnations(done.handed_to)
        lost = {node for node, incarnation in done.handed_to.items() if up.get(node) != incarnation}
        for target, node in record.bindings.items():
            if node in lost and done.stage in self._topology.feeders(target, record.request.route):
                self._fail(record.request_id, _died(target))

    def on_peer_down(self, node: str) -> None:
        """Fail what the node held. It acknowledges every abort by having died."""
        self._binder.down(node)
        for handle in list(self._handles.values()):
            record = handle.record
            route = record.request.route
            for stage, bound in record.bindings.items():
                feeders = () if stage in self._topology.entries(route) else self._topology.feeders(stage, route)
                if bound == node and record.may_be_held_by(stage, feeders):
                    self._fail(record.request_id, _died(stage))
        for request_id, ending in list(self._endings.items()):
            self._acknowledged(request_id, {key for key in ending.missing if key[1] == node})


def _died(stage: str) -> OmniError:
    message = f"the process of stage {stage} died and is being started again"
    return OmniError("stage_died", message, stage=stage, retryable=True)
