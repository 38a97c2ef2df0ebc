"""A node in a process of its own that sends every tree back, over a device that other processes can map."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from tests.support.host_memory import HostMemory
from voice_omni.pipeline.node import Node, Parcel
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Abort, Deliver, Message, Shutdown
from voice_omni.relay.cuda_ipc import CudaIpc
from voice_omni.relay.device_memory import DeviceMemory

HERE: Final = "here"
PEER: Final = "peer"
INLINE_BYTES: Final = 1 << 10
RELAY_BYTES: Final = 1 << 20
HOLD: Final = "hold"
"""A request whose parcels are never opened, so that their room stays taken."""


def memory_of(kind: str, folder: Path) -> DeviceMemory:
    """``host``, or a device as torch names it."""
    if kind == "host":
        return HostMemory(folder)
    from voice_omni.relay.cuda_memory import CudaMemory

    return CudaMemory(kind)


async def start(name: str, incarnation: int, run_dir: Path, kind: str, feeder: str) -> tuple[Node, CudaIpc]:
    """A node that sends and gets device tensors."""
    node = Node(name, incarnation, run_dir, inline_bytes=INLINE_BYTES, relay_bytes=RELAY_BYTES)
    await node.start()
    device = CudaIpc(memory_of(kind, run_dir), [feeder], RELAY_BYTES)
    await device.start()
    node.use_device(device)
    return node, device


class Echo:
    def __init__(self, node: Node) -> None:
        self._node = node

    def on_message(self, message: Message) -> None:
        """Answers, so that the other side knows that everything before this has been handled."""
        self._node.send(HERE, "stage", message)

    def on_peer_down(self, node: str) -> None:
        pass

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        if message.request_id != HOLD:
            self._node.spawn(self._answer(message, parcel))

    async def _answer(self, message: Deliver, parcel: Parcel | None) -> None:
        tree = message.body if parcel is None else await parcel.open()
        with contextlib.suppress(OmniError):  # nobody is left to answer
            send = await self._node.prepare(HERE, Deliver(message.request_id, PEER, message.seq, "chunk", tree))
            send("stage")


async def _serve(incarnation: int, run_dir: Path, kind: str, endpoint: str) -> None:
    node, _ = await start(PEER, incarnation, run_dir, kind, HERE)
    finished = asyncio.Event()
    node.on_control(lambda message: finished.set() if isinstance(message, Shutdown) else None)
    node.attach("stage", Echo(node))
    node.peer_up(HERE, 0, endpoint)
    node.send(HERE, "stage", Abort("up"))
    await finished.wait()
    await node.close()


def _main(incarnation: int, run_dir: str, kind: str, endpoint: str) -> None:
    asyncio.run(_serve(incarnation, Path(run_dir), kind, endpoint))


def spawn(incarnation: int, run_dir: Path, kind: str, endpoint: str) -> BaseProcess:
    """Start the peer; it tells ``stage`` of the node behind ``endpoint`` when it is up."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_main, args=(incarnation, str(run_dir), kind, endpoint), daemon=True)
    process.start()
    return process


def endpoint_of(incarnation: int, run_dir: Path) -> str:
    return f"ipc://{run_dir}/{PEER}.{incarnation}.sock"
