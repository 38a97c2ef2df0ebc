"""A node: one process's event loop, its control socket, and its links to the other nodes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import zmq

from voice_omni.pipeline.rundir import socket_name
from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Body, Deliver, Envelope, Free, Message, PeerDown, PeerUp, Region
from voice_omni.proto.payload import Data
from voice_omni.relay.carrier import Arrays, Receiver, Sender
from voice_omni.relay.cuda_ipc import CudaIpc, CudaIpcOutbound
from voice_omni.relay.shm import ShmInbound, ShmOutbound

logger = logging.getLogger(__name__)

MAIN: Final = "main"
"""The node of the server's own process: the coordinator, the supervisor, and any inline stages."""

_BURST: Final = 64
"""Messages taken from the socket before the loop's other callbacks get their turn."""

_PARTING_MS: Final = 200
"""How long a node that leaves waits for what it has sent to go out."""


class Parcel:
    """Tensors that wait in this node's receive buffers for whoever gets the message about them.

    Without a receiver they are lost: their writer has died, and opening the parcel says so.
    """

    def __init__(self, receiver: Receiver | None, body: Body, arrays: Arrays, done: Callable[[], None]) -> None:
        self._receiver = receiver
        self._body = body
        self._arrays = arrays
        self._done = done

    async def open(self) -> Data:
        """Copy the tree out; the sender gets its room back. Raises :class:`OmniError` ``stage_died``."""
        if self._receiver is None:
            raise OmniError("stage_died", "its sender died before this was read", retryable=True)
        try:
            return await self._receiver.read(self._body, self._arrays)
        finally:
            self._done()

    def drop(self) -> None:
        """Nobody wants it any more; the sender gets its room back all the same."""
        self._done()


class Handler(Protocol):
    """A stage or the coordinator: what a node hands messages to."""

    def on_message(self, message: Message) -> None: ...

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        """``parcel`` None: ``message.body`` is the tree. Otherwise it must be opened or dropped."""
        ...

    def on_peer_down(self, node: str) -> None:
        """What was sent to ``node`` may be lost, and what it held is."""
        ...


@dataclass(slots=True)
class _Peer:
    """Another node. Without a socket it is down, and what is sent waits for its next incarnation."""

    name: str
    incarnation: int = -1
    socket: zmq.Socket[bytes] | None = None
    sender: Sender | None = None
    receiver: Receiver | None = None
    offer: Region | None = None
    region: asyncio.Event = field(default_factory=asyncio.Event)
    backlog: deque[list[Any]] = field(default_factory=deque)


class Node:
    """Sends and receives for everything that lives in this process.

    Control messages to one node keep their order. Arrays up to ``inline_bytes`` ride in the control message, larger
    ones go through shared memory, device tensors through device memory where :meth:`use_device` has given some.
    Sockets have no high-water mark: stream credits bound what is under way.
    """

    def __init__(self, name: str, incarnation: int, run_dir: Path, *, inline_bytes: int, relay_bytes: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.endpoint = f"ipc://{run_dir / socket_name(name, incarnation)}"
        self._run_dir = run_dir
        self._inline_bytes = inline_bytes
        self._relay_bytes = relay_bytes
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._handlers: dict[str, Handler] = {}
        self._control: Callable[[Message], None] | None = None
        self._peers: dict[str, _Peer] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._device: CudaIpc | None = None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.set_hwm(0)
        self._socket.bind(self.endpoint)
        self._readable = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._readable, self._on_readable)
        # The descriptor is edge-triggered: what came before the reader was there would never wake it.
        self._loop.call_soon(self._on_readable)

    async def close(self) -> None:
        self._loop.remove_reader(self._readable)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # What is already queued (the last message of a node that leaves) still goes out, for a moment.
        for peer in self._peers.values():
            self._disconnect(peer, linger_ms=_PARTING_MS)
        if self._device is not None:
            await self._device.close()
        self._socket.close(linger=0)
        self._context.term()

    def use_device(self, device: CudaIpc) -> None:
        """Device tensors to and from nodes that are not known yet go through ``device``; the node closes it."""
        self._device = device

    def attach(self, target: str, handler: Handler) -> None:
        self._handlers[target] = handler

    def on_control(self, callback: Callable[[Message], None]) -> None:
        """Who gets the messages to the node itself that the node does not handle alone."""
        self._control = callback

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work``, which handles its own errors, until it ends or the node closes."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def incarnations(self, nodes: Collection[str]) -> dict[str, int]:
        """Of these nodes the other ones that are up, each with its incarnation."""
        return {peer.name: peer.incarnation for peer in self._peers.values() if peer.name in nodes and peer.socket}

    def stats(self) -> dict[str, int]:
        """Counts that are 0 when nothing is under way."""
        return {
            "relay_bytes": sum(peer.sender.in_use for peer in self._peers.values() if peer.sender),
            "backlog": sum(len(peer.backlog) for peer in self._peers.values()),
            "tasks": len(self._tasks),
        }

    # -- sending -------------------------------------------------------------------------------------------------

    def send(self, node: str, target: str, message: Message) -> None:
        """A message without tensors. Never blocks."""
        if node == self.name:
            self._loop.call_soon(self._hand_over, target, message)
        else:
            self._send_frames(node, [self._encode(target, message)])

    async def prepare(self, node: str, message: Deliver) -> Callable[[str], None]:
        """Make ``message``'s tensors ready for ``node``; the answer, called with the target, sends it.

        Split in two so that writes may overlap while the sends keep their order. Raises :class:`OmniError` as
        :meth:`Sender.place`.
        """
        if self.is_immediate(node, message):
            return self.prepare_now(node, message)
        peer = self._peer(node)
        await peer.region.wait()
        sender = peer.sender
        if sender is None:
            raise OmniError("stage_died", f"the node {node} went away", retryable=True)
        body, arrays = await sender.place(message.body)

        def send(target: str) -> None:
            # A place in the buffer of a dead incarnation means nothing to the one that follows it.
            if peer.sender is sender:
                self._send_deliver(node, target, message, body, arrays)

        return send

    def is_immediate(self, node: str, message: Deliver) -> bool:
        """Whether :meth:`prepare_now` can take this message: nothing has to be written first."""
        return node == self.name or codec.inline_size(message.body) <= self._inline_bytes

    def prepare_now(self, node: str, message: Deliver) -> Callable[[str], None]:
        """:meth:`prepare` for what is immediate. Raises :class:`OmniError` ``unsupported_type``."""
        if node == self.name:
            return lambda target: self._deliver_local(target, message)
        body, arrays, _ = codec.pack(message.body)
        return lambda target: self._send_deliver(node, target, message, body, arrays)

    def _deliver_local(self, target: str, message: Deliver) -> None:
        self._loop.call_soon(self._hand_over, target, message)

    def _encode(self, target: str, message: Message) -> bytes:
        return codec.encode(self.name, self.incarnation, target, message)

    def _send_deliver(self, node: str, target: str, message: Deliver, body: Body, arrays: Arrays) -> None:
        wire = Deliver(message.request_id, message.source, message.seq, message.kind, body)
        self._send_frames(node, [self._encode(target, wire), *(array.reshape(-1).view(np.uint8) for array in arrays)])

    def _send_frames(self, node: str, frames: list[Any]) -> None:
        peer = self._peer(node)
        if peer.socket is None:
            peer.backlog.append(frames)
        else:
            peer.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)

    # -- receiving -----------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._socket.closed:
            return
        drained = False
        try:
            for _ in range(_BURST):
                self._receive(self._socket.recv_multipart(zmq.NOBLOCK, copy=False))
        except zmq.Again:
            drained = True
        finally:
            # Also when a handler raises: the descriptor tells of new messages only, never of those left unread.
            if not drained:
                self._loop.call_soon(self._on_readable)

    def _receive(self, frames: list[zmq.Frame]) -> None:
        try:
            envelope = codec.decode(frames[0].buffer)
            message = envelope.message
            if isinstance(message, Deliver):
                self._receive_deliver(envelope, message, frames[1:])
            else:
                self._hand_over(envelope.target, message)
        except OmniError as error:
            logger.error("dropped a control message: %s", error)

    def _receive_deliver(self, envelope: Envelope, message: Deliver, frames: list[zmq.Frame]) -> None:
        body = codec.body_of(message.body)
        arrays = [np.frombuffer(frame.buffer, dtype=np.uint8) for frame in frames]
        if body.ref is None and body.tensors_ref is None:
            self._hand_over(envelope.target, msgspec.structs.replace(message, body=codec.unpack(body, arrays)))
            return
        peer = self._peer(envelope.sender)
        # The buffers that a dead incarnation wrote to are gone.
        receiver = peer.receiver if peer.incarnation == envelope.incarnation else None
        parcel = Parcel(receiver, body, arrays, lambda: self._free(peer, receiver, body))
        handler = self._handlers.get(envelope.target)
        if handler is None:
            parcel.drop()
        else:
            handler.on_deliver(message, parcel)

    def _free(self, peer: _Peer, receiver: Receiver | None, body: Body) -> None:
        """Give room back, unless its owner is dead: its successor would take the offsets for some of its own.

        In the loop's next turn, since whoever waits for the data need not wait for this.
        """
        places = tuple(() if ref is None else (ref.offset,) for ref in (body.ref, body.tensors_ref))

        def tell() -> None:
            if receiver is not None and peer.receiver is receiver:
                self.send(peer.name, "", Free(self.name, self.incarnation, *places))

        self._loop.call_soon(tell)

    def _hand_over(self, target: str, message: Message) -> None:
        if not target:
            self._own(message)
            return
        handler = self._handlers.get(target)
        if handler is None:
            logger.error("dropped a %s for '%s', which is not here", type(message).__name__, target)
        elif isinstance(message, Deliver):
            handler.on_deliver(message, None)
        else:
            handler.on_message(message)

    def _own(self, message: Message) -> None:
        match message:
            case PeerUp(node, incarnation, endpoint):
                self.peer_up(node, incarnation, endpoint)
            case PeerDown(node, incarnation):
                self.peer_down(node, incarnation)
            case Region(node, incarnation):
                peer = self._peer(node)
                if peer.offer is None or peer.offer.incarnation < incarnation:
                    peer.offer = message
                    self._accept_offer(peer)
            case Free(node, incarnation):
                peer = self._peer(node)
                if peer.incarnation == incarnation and peer.sender is not None:
                    peer.sender.free(message)
            case _:
                if self._control is not None:
                    self._control(message)

    # -- the other nodes -----------------------------------------------------------------------------------------

    def _peer(self, node: str) -> _Peer:
        return self._peers.setdefault(node, _Peer(node))

    def peer_up(self, node: str, incarnation: int, endpoint: str) -> None:
        """Connect to a node, register buffers for what it will write, and send what has waited for it."""
        peer = self._peer(node)
        if incarnation <= peer.incarnation:
            return
        if peer.socket is not None:
            self.peer_down(node, peer.incarnation)
        peer.incarnation = incarnation
        peer.socket = self._context.socket(zmq.PUSH)
        peer.socket.set_hwm(0)
        peer.socket.connect(endpoint)
        name = f"{node}.{incarnation}@{self.name}.{self.incarnation}.relay"
        host = ShmInbound(self._run_dir / name, self._relay_bytes)
        peer.receiver = Receiver(host, None if self._device is None else self._device.inbound(node))
        region = Region(self.name, self.incarnation, host.descriptor, peer.receiver.device_descriptor)
        self.send(node, "", region)
        self._accept_offer(peer)
        while peer.backlog:
            peer.socket.send_multipart(peer.backlog.popleft(), zmq.NOBLOCK, copy=False)

    def peer_down(self, node: str, incarnation: int) -> None:
        peer = self._peer(node)
        if peer.incarnation != incarnation or peer.socket is None:
            return
        self._disconnect(peer)
        for handler in self._handlers.values():
            handler.on_peer_down(node)

    def _accept_offer(self, peer: _Peer) -> None:
        """Use the buffers that a node has registered for us. Its offer may come before the word that it is up."""
        offer = peer.offer
        if peer.socket is None or offer is None or offer.incarnation != peer.incarnation:
            return
        try:
            host = ShmOutbound(offer.descriptor)
        except FileNotFoundError:
            return  # the node has died and its files are removed: the word that it is down is on its way
        if self._device is None or not offer.device:
            self._link(peer, Sender(host, None, self._inline_bytes))
        else:
            self.spawn(self._link_device(peer, offer, host, self._device))

    async def _link_device(self, peer: _Peer, offer: Region, host: ShmOutbound, device: CudaIpc) -> None:
        opened: CudaIpcOutbound | OmniError
        try:
            opened = await device.outbound(offer.device)
        except OmniError as error:
            logger.error("no device tensors can go to %s: %s", peer.name, error)
            opened = error
        sender = Sender(host, opened, self._inline_bytes)
        if peer.socket is not None and peer.incarnation == offer.incarnation:
            self._link(peer, sender)
        else:
            sender.close()  # it went down while its buffer was opened

    def _link(self, peer: _Peer, sender: Sender) -> None:
        peer.sender = sender
        peer.region.set()

    def _disconnect(self, peer: _Peer, linger_ms: int = 0) -> None:
        peer.region.clear()
        if peer.sender is not None:
            peer.sender.close()
            peer.sender = None
        if peer.receiver is not None:
            peer.receiver.close()
            peer.receiver = None
        if peer.socket is not None:
            peer.socket.close(linger=linger_ms)
            peer.socket = None
