"""One hop of a device tensor between two processes, on one GPU or between two.

    python -m benchmarks.device_hop [--device cuda:0] [--peer cuda:1] [--rounds 300] [--messages 10000]

Latency is one way, on the host's monotonic clock, with one message under way: from a complete tensor in the sender's
hands to a complete tensor in the receiver's. Beside it, in the same run, stand a plain copy between the same devices
(`copy_` and a synchronise, in one process) and the way through the host: copied down, through the shared memory relay,
copied up. Throughput keeps ``--window`` messages under way. Then ``--messages`` tensors of mixed sizes and types go
across; what is left behind is printed. Every tensor that arrives is compared with what was sent.

``--device cpu`` runs it on memory of the host that plays a device, to try the benchmark itself without a GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import describe
from benchmarks.stage_hop import Source
from voice_omni.pipeline.node import MAIN, Node, Parcel
from voice_omni.pipeline.rundir import RunDir
from voice_omni.proto.messages import Abort, Credit, Deliver, Heartbeat, Message, Shutdown
from voice_omni.proto.payload import CLIENT
from voice_omni.relay.cuda_ipc import CudaIpc
from voice_omni.relay.device_memory import DeviceMemory

SIZES = {"1 KB": 1 << 10, "16 KB": 1 << 14, "128 KB": 1 << 17, "1 MB": 1 << 20, "8 MB": 1 << 23, "64 MB": 1 << 26}
DTYPES = (torch.bfloat16, torch.float32)
INLINE_BYTES = 1 << 16
HOST_BYTES = 1 << 27
DEVICE_BYTES = 1 << 28
WORKER = "sink"
WRONG = -1


@dataclass(frozen=True)
class Place:
    """A device; ``cpu`` for memory of the host that plays one."""

    device: str
    folder: Path

    def memory(self) -> DeviceMemory:
        if self.device == "cpu":
            from tests.support.host_memory import HostMemory

            return HostMemory(self.folder)
        from voice_omni.relay.cuda_memory import CudaMemory

        return CudaMemory(self.device)

    def synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)

    def used(self) -> int:
        """Bytes that torch's tensors take on the device."""
        return 0 if self.device == "cpu" else torch.cuda.memory_allocated(self.device)


class Sink:
    """Takes each tensor in and answers with the time that its hop took, in nanoseconds."""

    def __init__(self, node: Node, place: Place) -> None:
        self._node = node
        self._place = place

    def on_message(self, message: Message) -> None:
        """Asked what it still holds."""
        stats = {**self._node.stats(), "device_bytes": self._place.used()}
        self._node.send(MAIN, CLIENT, Heartbeat(WORKER, 0, 0, {"": stats}))

    def on_peer_down(self, node: str) -> None:
        pass

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        if parcel is None:
            self._arrived(message.body)
        else:
            self._node.spawn(self._open(parcel))

    async def _open(self, parcel: Parcel) -> None:
        self._arrived(await parcel.open())

    def _arrived(self, tree: dict[str, Any]) -> None:
        tensor = tree["tensor"]
        if tree["through_host"]:
            tensor = torch.from_numpy(tensor).to(self._place.device).view(getattr(torch, tree["dtype"]))
            self._place.synchronize()
        hop = time.monotonic_ns() - tree["sent"]
        right = str(tensor.device) == self._place.device and bool((tensor == tree["value"]).all())
        self._node.send(MAIN, CLIENT, Credit("", WORKER, hop if right else WRONG))


async def serve(run_dir: Path, main_endpoint: str, place: Place) -> None:
    node = await start(WORKER, run_dir, place, [MAIN])
    finished = asyncio.Event()
    node.on_control(lambda message: finished.set() if isinstance(message, Shutdown) else None)
    node.attach(WORKER, Sink(node, place))
    node.peer_up(MAIN, 0, main_endpoint)
    await finished.wait()
    await node.close()


async def start(name: str, run_dir: Path, place: Place, feeders: list[str]) -> Node:
    node = Node(name, 0, run_dir, inline_bytes=INLINE_BYTES, relay_bytes=HOST_BYTES)
    await node.start()
    device = CudaIpc(place.memory(), feeders, DEVICE_BYTES)
    await device.start()
    node.use_device(device)
    return node


def run_worker(run_dir: str, main_endpoint: str, place: Place) -> None:
    asyncio.run(serve(Path(run_dir), main_endpoint, place))


class Answers(Source):
    """Hops that have arrived right, and what the other side holds."""

    def __init__(self) -> None:
        super().__init__()
        self.held: asyncio.Queue[dict[str, int]] = asyncio.Queue()

    def on_message(self, message: Message) -> None:
        super().on_message(message)
        if isinstance(message, Heartbeat):
            self.held.put_nowait(message.stages[""])

    async def hop(self) -> float:
        """Microseconds."""
        async with asyncio.timeout(60):
            took = await self.hops.get()
        if took == WRONG:
            raise SystemExit("a tensor did not arrive as it was sent")
        return took / 1000


class Bench:
    def __init__(self, node: Node, answers: Answers, here: Place, there: Place) -> None:
        self._node = node
        self._answers = answers
        self._here = here
        self._there = there

    def tensor(self, nbytes: int, dtype: torch.dtype, value: float) -> torch.Tensor:
        made = torch.full((nbytes // dtype.itemsize,), value, dtype=dtype, device=self._here.device)
        self._here.synchronize()
        return made

    async def across(self, tensor: torch.Tensor, value: float) -> None:
        await self._send({"sent": time.monotonic_ns(), "tensor": tensor, "value": value, "through_host": False})

    async def through_host(self, tensor: torch.Tensor, value: float) -> None:
        sent = time.monotonic_ns()
        array = tensor.view(torch.uint8).cpu().numpy()
        dtype = str(tensor.dtype).removeprefix("torch.")
        await self._send({"sent": sent, "tensor": array, "value": value, "through_host": True, "dtype": dtype})

    async def _send(self, tree: dict[str, Any]) -> None:
        (await self._node.prepare(WORKER, Deliver("", CLIENT, 0, "chunk", tree)))(WORKER)

    async def latency(
        self, send: Callable[[torch.Tensor, float], Awaitable[None]], nbytes: int, dtype: torch.dtype, rounds: int
    ) -> list[float]:
        """Sorted microseconds of each hop."""
        hops = []
        for number in range(rounds + rounds // 10):
            value = number % 100
            await send(self.tensor(nbytes, dtype, value), value)
            hops.append(await self._answers.hop())
        return sorted(hops[rounds // 10 :])

    async def throughput(self, nbytes: int, rounds: int, window: int) -> float:
        """Gigabytes per second."""
        tensor = self.tensor(nbytes, torch.bfloat16, 1)
        began, under_way = time.monotonic(), 0
        for _ in range(rounds):
            if under_way == window:
                await self._answers.hop()
                under_way -= 1
            await self.across(tensor, 1)
            under_way += 1
        for _ in range(under_way):
            await self._answers.hop()
        return rounds * nbytes / (time.monotonic() - began) / 1e9

    def plain(self, nbytes: int, rounds: int) -> float:
        """Median microseconds of a copy between the devices in one process."""
        source = self.tensor(nbytes, torch.uint8, 1)
        target = torch.empty(nbytes, dtype=torch.uint8, device=self._there.device)
        spent = []
        for _ in range(rounds + 10):
            began = time.monotonic_ns()
            target.copy_(source)
            self._there.synchronize()
            self._here.synchronize()
            spent.append((time.monotonic_ns() - began) / 1000)
        return statistics.median(spent[10:])

    async def soak(self, messages: int) -> None:
        """Mixed sizes and types with 16 under way; prints what both sides hold afterwards."""
        before = await self.held()
        random = torch.Generator().manual_seed(1)
        began, under_way = time.monotonic(), 0
        for number in range(messages):
            nbytes = int(torch.randint(0, 1 << 18, (), generator=random)) // 4 * 4
            if under_way == 16:
                await self._answers.hop()
                under_way -= 1
            await self.across(self.tensor(nbytes, DTYPES[number % 2], number % 100), number % 100)
            under_way += 1
        for _ in range(under_way):
            await self._answers.hop()
        seconds = time.monotonic() - began
        print(f"{messages} messages in {seconds:.1f} s, all right; held before: {before}, after: {await self.held()}")

    async def held(self) -> dict[str, int]:
        self._node.send(WORKER, WORKER, Abort(""))
        there = await self._answers.held.get()
        await asyncio.sleep(0.05)  # the last places come back one turn after their hop
        return {**{f"sender.{name}": count for name, count in self._node.stats().items()}, **there}


def run_base() -> Path | None:
    """Where shared memory has room for the largest message."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * HOST_BYTES
    return None if roomy else Path(tempfile.gettempdir())


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--peer", default=None, help="the receiver's device; default: the same")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--window", type=int, default=4)
    parser.add_argument("--messages", type=int, default=10_000)
    options = parser.parse_args()
    run_dir = RunDir(run_base())
    here, there = Place(options.device, run_dir.path), Place(options.peer or options.device, run_dir.path)
    print(describe(), f"torch {torch.__version__}", f"{here.device} to {there.device}", sep="; ")
    node = await start(MAIN, run_dir.path, here, [])
    answers = Answers()
    node.attach(CLIENT, answers)
    arguments = (str(run_dir.path), node.endpoint, there)
    worker = multiprocessing.get_context("spawn").Process(target=run_worker, args=arguments)
    worker.start()
    node.peer_up(WORKER, 0, f"ipc://{run_dir.path}/{WORKER}.0.sock")
    bench = Bench(node, answers, here, there)
    print(f"{'tensor':>7} {'dtype':>9} {'p50 us':>8} {'p95 us':>8} {'plain us':>9} {'p50/plain':>9} {'host us':>9}")
    for name, nbytes in SIZES.items():
        rounds = options.rounds if nbytes < 1 << 21 else max(options.rounds // 10, 10)
        plain = bench.plain(nbytes, rounds)
        for dtype in DTYPES:
            hops = await bench.latency(bench.across, nbytes, dtype, rounds)
            slow = await bench.latency(bench.through_host, nbytes, dtype, max(rounds // 3, 10))
            p50, p95 = hops[len(hops) // 2], hops[int(len(hops) * 0.95)]
            kind = str(dtype).removeprefix("torch.")
            print(
                f"{name:>7} {kind:>9} {p50:>8.0f} {p95:>8.0f} {plain:>9.1f} {p50 / plain:>9.2f}"
                f" {slow[len(slow) // 2]:>9.0f}"
            )
    for name in ("1 MB", "64 MB"):
        rate = await bench.throughput(SIZES[name], max(options.rounds // 5, 20), options.window)
        print(f"{name} with {options.window} under way: {rate:.1f} GB/s")
    await bench.soak(options.messages)
    node.send(WORKER, "", Shutdown())
    await asyncio.to_thread(worker.join, 10)
    await node.close()
    run_dir.close()


if __name__ == "__main__":
    asyncio.run(main())
