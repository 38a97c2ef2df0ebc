"""Real nodes in one event loop, and handlers that write down what they get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from tests.support.patience import PATIENCE_S
from voice_omni.pipeline.node import Node, Parcel
from voice_omni.pipeline.signal import Signal
from voice_omni.proto.messages import Abort, Deliver, Message, PeerDown, PeerUp
from voice_omni.relay.cuda_ipc import CudaIpc

"""Only reached when a test would hang otherwise."""

M = TypeVar("M")


class Recorder:
    """Plays a stage or the coordinator. Parcels are kept until the test opens or drops them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.parcels: list[Parcel | None] = []
        self.lost: list[str] = []
        self.react: Callable[[Message], None] = lambda message: None
        self._changed = Signal()

    def on_message(self, message: Message) -> None:
        self._note(message, None)

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        self._note(message, parcel)

    def on_peer_down(self, node: str) -> None:
        self.lost.append(node)
        self._changed.notify()

    def _note(self, message: Message, parcel: Parcel | None) -> None:
        self.messages.append(message)
        self.parcels.append(parcel)
        self.react(message)
        self._changed.notify()

    def of(self, kind: type[M]) -> list[M]:
        return [message for message in self.messages if isinstance(message, kind)]

    async def until(self, predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._changed.wait_until(predicate)

    async def count(self, count: int) -> list[Message]:
        """What has come once it is so many."""
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    async def first(self, kind: type[M]) -> M:
        await self.until(lambda: bool(self.of(kind)))
        return self.of(kind)[0]


class Cluster:
    """Nodes over one run directory. A node that is killed just goes silent, as a dead process does."""

    def __init__(self, run_dir: Path, *, inline_bytes: int = 1 << 10, relay_bytes: int = 1 << 16) -> None:
        self._run_dir = run_dir
        self._limits = {"inline_bytes": inline_bytes, "relay_bytes": relay_bytes}
        self.nodes: dict[str, Node] = {}
        self.failures: list[dict[str, Any]] = []

    async def __aenter__(self) -> Cluster:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.failures.append(context))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            await node.close()
        assert not self.failures, "something failed where nobody waits for it"

    async def start(self, name: str, incarnation: int = 0, device: CudaIpc | None = None) -> Node:
        node = Node(name, incarnation, self._run_dir, **self._limits)
        await node.start()
        if device is not None:
            await device.start()
            node.use_device(device)
        self.nodes[name] = node
        return node

    def introduce(self, *names: str) -> None:
        """Tell each of these nodes of all the others."""
        for name in names:
            for other in names:
                if other != name:
                    node = self.nodes[other]
                    self.tell(name, PeerUp(other, node.incarnation, node.endpoint))

    def tell(self, name: str, message: PeerUp | PeerDown) -> None:
        """What the supervisor says to a node."""
        self.nodes[name].send(name, "", message)

    async def kill(self, name: str, *, tell: tuple[str, ...]) -> None:
        """It goes without a word; these nodes are told."""
        node = self.nodes.pop(name)
        await node.close()
        for path in self._run_dir.glob(f"*@{name}.{node.incarnation}.relay"):
            path.unlink()
        for other in tell:
            self.tell(other, PeerDown(name, node.incarnation))

    async def settle(self) -> None:
        """Returns when everything that was sent between the living nodes has been handled.

        Each link keeps its order, so a probe comes after all that went before it; what that in turn has sent is
        behind the second probe, and so on.
        """
        for _ in range(4):
            for _ in range(10):
                await asyncio.sleep(0)
            for sender in self.nodes.values():
                for receiver in self.nodes.values():
                    await self._probe(sender, receiver)

    @staticmethod
    async def _probe(sender: Node, receiver: Node) -> None:
        if sender is not receiver and receiver.name not in sender.incarnations((receiver.name,)):
            return
        probe = Recorder()
        receiver.attach("probe", probe)
        sender.send(receiver.name, "probe", Abort("probe"))
        await probe.count(1)


def idle(node: Node) -> bool:
    return not any(node.stats().values())


def tensor(nbytes: int, value: int = 0) -> dict[str, Any]:
    return {"x": np.full(nbytes, value, np.uint8)}
