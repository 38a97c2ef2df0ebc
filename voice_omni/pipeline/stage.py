"""A stage: control messages, lanes, fan-in, stream routes and credits around a scheduler of any kind.

It knows neither the model nor its scheduler's type.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from voice_omni.pipeline.intake import Intake
from voice_omni.pipeline.lanes import EmitWindow, Lane, Place, Tombstones
from voice_omni.pipeline.node import MAIN, Node, Parcel
from voice_omni.pipeline.topology import Sources, Targets, Topology
from voice_omni.proto.errors import OmniError, as_omni_error
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
from voice_omni.proto.payload import CLIENT, Data, OmniRequest, StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    ChunkIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    FailedOut,
    Incoming,
    New,
    Outgoing,
    ResultOut,
    Scheduler,
    StreamOut,
)

logger = logging.getLogger(__name__)

TOMBSTONES: Final = 10_000
"""How many ended requests a stage remembers, so that late messages do not bring them back."""

Send = Callable[[], None]


@dataclass(slots=True)
class _Request:
    """One request at this stage.

    ``held``: what arrived before the last payload; bounded by the edges' credits. ``finishing``: the scheduler has
    given the result; what is still written, or still streams in, ends first.
    """

    request: OmniRequest
    bindings: dict[str, str]
    sources: Sources
    targets: Targets
    window: EmitWindow
    results: dict[str, Data] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)
    held: list[Incoming] = field(default_factory=list)
    scheduled: bool = False
    finishing: bool = False
    aborting: bool = False
    lanes_in: dict[str, Lane[Deliver | End]] = field(default_factory=dict)
    expected: dict[str, int] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    lanes_out: dict[str, Lane[Send]] = field(default_factory=dict)
    sequence: dict[str, int] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    writes: set[asyncio.Task[None]] = field(default_factory=set)
    opened_at: float = 0.0
    input_ended_at: float = 0.0
    first_output_at: float = 0.0


class Stage:
    """Feeds a scheduler with what arrives for it and sends on what it puts out."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        scheduler: Scheduler,
        node: Node,
        *,
        credits: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._topology = topology
        self._scheduler = scheduler
        self._node = node
        self._credits = credits
        self._clock = clock
        self._requests: dict[str, _Request] = {}
        self._ended = Tombstones(TOMBSTONES)
        self._intake = Intake(node, self._report)

    def stats(self) -> dict[str, int]:
        """Counts that are all 0 when the stage holds nothing, and the scheduler's ``busy_ms``."""
        requests = self._requests.values()
        return {
            "open": len(self._requests),
            "held": sum(len(request.held) for request in requests),
            "writes": sum(len(request.writes) for request in requests),
            **self._scheduler.stats(),
        }

    # -- from other nodes ----------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        match message:
            case Open(header, _, bindings):
                self._open(header, bindings)
            case End(request_id, source):
                if request := self._requests.get(request_id):
                    self._lane_in(request, source).pass_through(message)
            case Credit(request_id, target, count):
                if request := self._requests.get(request_id):
                    self._grant(request_id, request.window.consumed(target, count))
            case Abort(request_id):
                self._abort(request_id)
            case _:
                logger.error("stage %s cannot handle a %s", self.name, type(message).__name__)

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        request = self._requests.get(message.request_id)
        self._intake.take(None if request is None else self._lane_in(request, message.source), message, parcel)

    def on_peer_down(self, node: str) -> None:
        """Report what may have been lost; the coordinator knows which of it mattered and aborts that."""
        for request_id, request in self._requests.items():
            for target in request.opened:
                if request.bindings[target] == node:
                    died = OmniError("stage_died", f"the process of stage {target} died", stage=target, retryable=True)
                    self._report(request_id, died)

    # -- one request's way in ------------------------------------------------------------------------------------

    def _open(self, header: OmniRequest, bindings: dict[str, str]) -> None:
        request_id = header.request_id
        if request_id in self._ended:
            return
        request = self._requests.get(request_id)
        if request is None:
            sources = self._topology.sources(self.name, header.route)
            targets = self._topology.targets(self.name, header.route)
            request = _Request(header, bindings, sources, targets, EmitWindow(targets.stream))
            request.streams.update(sources.stream)
            self._requests[request_id] = request
        if not request.sources.payload:
            self._schedule(request)

    def _lane_in(self, request: _Request, source: str) -> Lane[Deliver | End]:
        lane = request.lanes_in.get(source)
        if lane is None:
            lane = request.lanes_in[source] = Lane(self._accept)
        return lane

    def _accept(self, message: Deliver | End) -> None:
        """Next in order on its edge. A request that ended while its data was read is not known any more."""
        request = self._requests.get(message.request_id)
        if request is None or request.aborting:
            return
        expected = request.expected.get(message.source, 0)
        if message.seq != expected:
            lost = f"message {message.seq} from {message.source} came where {expected} was due"
            self._report(message.request_id, OmniError("protocol_error", lost, stage=self.name))
            return
        request.expected[message.source] = expected + 1
        if isinstance(message, End):
            request.streams.discard(message.source)
            if request.finishing:
                self._finish_if_sent(message.request_id)
            elif request.scheduled and not request.streams:
                self._end_input(request)
        elif message.kind == "result":
            request.results[message.source] = message.body
            if len(request.results) == len(request.sources.payload):
                self._schedule(request)
        else:
            request.unread[message.source] += 1
            chunk = ChunkIn(message.request_id, message.source, message.body)
            if request.finishing:
                self._return_credits(request, message.source, 1)
            elif request.scheduled:
                self._scheduler.inbox.put(chunk)
            else:
                request.held.append(chunk)

    def _schedule(self, request: _Request) -> None:
        if request.scheduled:
            return
        request.scheduled = True
        request.opened_at = self._clock()
        self._scheduler.inbox.put(New(StagePayload(request.request, request.results), self._credits))
        for message in request.held:
            self._scheduler.inbox.put(message)
        request.held.clear()
        if not request.streams:
            self._end_input(request)

    def _end_input(self, request: _Request) -> None:
        request.input_ended_at = self._clock()
        self._scheduler.inbox.put(EndIn(request.request.request_id))

    def _grant(self, request_id: str, emits: int) -> None:
        if emits:
            self._scheduler.inbox.put(CreditIn(request_id, emits))

    # -- from the scheduler --------------------------------------------------------------------------------------

    def on_outgoing(self, message: Outgoing) -> None:
        """Called on the event loop for everything that the scheduler puts out, in order."""
        request = self._requests.get(message.request_id)
        if request is None:
            return
        if request.aborting:
            # Whatever ends the request in the scheduler acknowledges the abort, also a result that was faster.
            if isinstance(message, ResultOut | FailedOut | AbortedOut):
                self._acknowledge(message.request_id)
            return
        try:
            self._pass_on(request, message)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends one request, not the stage
            self._report(message.request_id, as_omni_error(error))

    def _pass_on(self, request: _Request, message: Outgoing) -> None:
        match message:
            case StreamOut(request_id, data, targets):
                self._emit(request_id, request, data, targets)
            case ResultOut(request_id, data):
                self._finish(request_id, request, data)
            case ConsumedOut(_, source, count):
                self._return_credits(request, source, count)
            case FailedOut(request_id, error):
                self._forget(request_id)
                self._report(request_id, error)
            case AbortedOut():
                logger.error("stage %s: the scheduler aborted %s unasked", self.name, message.request_id)

    def _return_credits(self, request: _Request, source: str, count: int) -> None:
        request.unread[source] -= count
        node = MAIN if source == CLIENT else request.bindings[source]
        self._node.send(node, source, Credit(request.request.request_id, self.name, count))

    def _emit(self, request_id: str, request: _Request, data: Data, targets: tuple[str, ...] | None) -> None:
        if not request.first_output_at:
            request.first_output_at = self._clock()
        streams = request.targets.stream
        chosen = streams if targets is None else tuple(target for target in streams if target in targets)
        self._grant(request_id, request.window.sent(chosen))
        for target in chosen:
            self._deliver(request, target, "chunk", data)

    def _finish(self, request_id: str, request: _Request, data: Data) -> None:
        request.finishing = True
        # A result may come before the input has ended: nobody reads the rest, and who sends it must not wait for ever.
        for source, count in request.unread.items():
            if count:
                self._return_credits(request, source, count)
        for target in request.targets.payload:
            self._deliver(request, target, "result", data)
        for target in request.targets.stream:
            if target != CLIENT:
                self._send_end(request_id, request, target)
        self._finish_if_sent(request_id)

    def _finish_if_sent(self, request_id: str) -> None:
        request = self._requests.get(request_id)
        if request is None or not request.finishing or request.writes or request.streams - {CLIENT}:
            return
        handed_to = self._node.incarnations({request.bindings[target] for target in request.opened})
        times = (request.opened_at, request.input_ended_at, request.first_output_at, self._clock())
        self._forget(request_id)
        self._node.send(MAIN, CLIENT, StageDone(request_id, self.name, *times, handed_to))

    # -- one request's way out -----------------------------------------------------------------------------------

    def _edge(self, request: _Request, target: str) -> str:
        """The node that runs ``target``; the first use of an edge opens the request there."""
        if target == CLIENT:
            return MAIN
        node = request.bindings[target]
        if target not in request.opened:
            request.opened.add(target)
            self._node.send(node, target, Open(request.request, self.name, request.bindings))
        return node

    def _next(self, request: _Request, target: str) -> int:
        seq = request.sequence.get(target, 0)
        request.sequence[target] = seq + 1
        return seq

    def _lane_out(self, request: _Request, target: str) -> Lane[Send]:
        lane = request.lanes_out.get(target)
        if lane is None:
            lane = request.lanes_out[target] = Lane(lambda send: send())
        return lane

    def _deliver(self, request: _Request, target: str, kind: Any, data: Data) -> None:
        node = self._edge(request, target)
        message = Deliver(request.request.request_id, self.name, self._next(request, target), kind, data)
        lane = self._lane_out(request, target)
        if self._node.is_immediate(node, message):
            self._deliver_now(lane, node, target, message)
            return
        place = lane.reserve()
        task = self._node.spawn(self._write(lane, place, node, target, message))
        request.writes.add(task)
        task.add_done_callback(lambda _: self._written(request, task, lane, place))

    def _deliver_now(self, lane: Lane[Send], node: str, target: str, message: Deliver) -> None:
        try:
            send = self._node.prepare_now(node, message)
        except OmniError as error:
            self._report(message.request_id, error)
        else:
            lane.pass_through(lambda: send(target))

    def _send_end(self, request_id: str, request: _Request, target: str) -> None:
        node = self._edge(request, target)
        end = End(request_id, self.name, self._next(request, target))
        self._lane_out(request, target).pass_through(lambda: self._node.send(node, target, end))

    async def _write(self, lane: Lane[Send], place: Place[Send], node: str, target: str, message: Deliver) -> None:
        try:
            send = await self._node.prepare(node, message)
        except OmniError as error:
            self._report(message.request_id, error)
        else:
            lane.fill(place, lambda: send(target))

    def _written(self, request: _Request, task: asyncio.Task[None], lane: Lane[Send], place: Place[Send]) -> None:
        request.writes.discard(task)
        if not place.filled:
            # Failed or cancelled. What is written behind it must still be sent, or its room is never freed.
            lane.fill(place, None)
        self._finish_if_sent(request.request.request_id)

    # -- ends ----------------------------------------------------------------------------------------------------

    def _abort(self, request_id: str) -> None:
        request = self._requests.get(request_id)
        if request is None or not request.scheduled or request.finishing:
            self._acknowledge(request_id)
            return
        if request.aborting:
            return  # acknowledged when the scheduler has let go of it
        request.aborting = True
        self._cancel_writes(request)
        self._scheduler.abort(request_id)

    def _acknowledge(self, request_id: str) -> None:
        self._forget(request_id)
        self._node.send(MAIN, CLIENT, AbortAck(request_id, self.name, self._node.name))

    def _report(self, request_id: str, error: OmniError) -> None:
        """Tell the coordinator, which aborts the request everywhere."""
        failure = error.at(stage=self.name, request_id=request_id)
        self._node.send(MAIN, CLIENT, RequestFailed(request_id, self.name, failure.info))

    def _forget(self, request_id: str) -> None:
        self._ended.add(request_id)
        request = self._requests.pop(request_id, None)
        if request is not None:
            self._cancel_writes(request)

    def _cancel_writes(self, request: _Request) -> None:
        for task in list(request.writes):
            task.cancel()
