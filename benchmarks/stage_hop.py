"""One hop between two processes: from a stage's outgoing message to the tree in the next stage's hands.

    python -m benchmarks.stage_hop [--rounds 2000]

Latency is one way, on the host's monotonic clock, with one message under way. Beside it, in the same run, stands what a
plain copy through the same kind of shared memory between two processes costs: copied in by one, told through a pipe,
copied out by the other, with nothing else. Throughput keeps ``--window`` messages under way.

Tensors of a GPU have their own: :mod:`benchmarks.device_hop`.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.machine import describe
from voice_omni.pipeline.node import MAIN, Node, Parcel
from voice_omni.pipeline.rundir import RunDir
from voice_omni.proto.messages import Credit, Deliver, Message, Shutdown
from voice_omni.proto.payload import CLIENT

SIZES = {"1 KB": 1 << 10, "64 KB": 1 << 16, "4 MB": 1 << 22}
INLINE_BYTES = 1 << 16
RELAY_BYTES = 1 << 25
WORKER = "sink"


class Sink:
    """Takes each tree in and answers with the time that its hop took, in nanoseconds."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def on_message(self, message: Message) -> None:
        pass

    def on_peer_down(self, node: str) -> None:
        pass

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        if parcel is None:
            self._arrived(message.body["sent"])
        else:
            self._node.spawn(self._open(parcel))

    async def _open(self, parcel: Parcel) -> None:
        self._arrived((await parcel.open())["sent"])

    def _arrived(self, sent: int) -> None:
        self._node.send(MAIN, CLIENT, Credit("", WORKER, time.monotonic_ns() - sent))


class Source:
    """Counts the answers."""

    def __init__(self) -> None:
        self.hops: asyncio.Queue[int] = asyncio.Queue()

    def on_message(self, message: Message) -> None:
        if isinstance(message, Credit):
            self.hops.put_nowait(message.count)

    def on_deliver(self, message: Deliver, parcel: Parcel | None) -> None:
        pass

    def on_peer_down(self, node: str) -> None:
        pass


async def serve(run_dir: Path, main_endpoint: str) -> None:
    node = Node(WORKER, 0, run_dir, inline_bytes=INLINE_BYTES, relay_bytes=RELAY_BYTES)
    await node.start()
    finished = asyncio.Event()
    node.on_control(lambda message: finished.set() if isinstance(message, Shutdown) else None)
    node.attach(WORKER, Sink(node))
    node.peer_up(MAIN, 0, main_endpoint)
    await finished.wait()
    await node.close()


def run_worker(run_dir: str, main_endpoint: str) -> None:
    asyncio.run(serve(Path(run_dir), main_endpoint))


async def send(node: Node, seq: int, tensor: np.ndarray) -> None:
    message = Deliver("", CLIENT, seq, "chunk", {"sent": time.monotonic_ns(), "tensor": tensor})
    if node.is_immediate(WORKER, message):
        node.prepare_now(WORKER, message)(WORKER)
    else:
        deliver = await node.prepare(WORKER, message)
        deliver(WORKER)


async def latency(node: Node, source: Source, nbytes: int, rounds: int) -> list[float]:
    """Microseconds of each hop."""
    tensor = np.random.default_rng(0).integers(0, 255, nbytes, dtype=np.uint8)
    hops = []
    for seq in range(rounds + rounds // 10):
        await send(node, seq, tensor)
        hops.append(await source.hops.get() / 1000)
    return hops[rounds // 10 :]


async def throughput(node: Node, source: Source, nbytes: int, rounds: int, window: int) -> float:
    """Messages per second with ``window`` of them under way."""
    tensor = np.zeros(nbytes, dtype=np.uint8)
    began, under_way = time.monotonic(), 0
    for seq in range(rounds):
        if under_way == window:
            await source.hops.get()
            under_way -= 1
        await send(node, seq, tensor)
        under_way += 1
    for _ in range(under_way):
        await source.hops.get()
    return rounds / (time.monotonic() - began)


def map_plain(path: Path, nbytes: int) -> np.ndarray:
    with open(path, "a+b") as file:
        os.ftruncate(file.fileno(), nbytes)
        return np.frombuffer(mmap.mmap(file.fileno(), nbytes), dtype=np.uint8)


def run_plain_reader(path: Path, nbytes: int, told: Connection) -> None:
    """Copy out at each word, and answer with the time since the copy in began."""
    shared = map_plain(path, nbytes)
    while began := int.from_bytes(told.recv_bytes(), "big"):
        shared.copy()
        told.send_bytes((time.monotonic_ns() - began).to_bytes(8, "big"))


def plain_copy(run_dir: Path, nbytes: int, rounds: int) -> float:
    """Median microseconds of one tensor through plain shared memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    path = run_dir / f"plain{nbytes}"
    shared = map_plain(path, nbytes)
    reader = context.Process(target=run_plain_reader, args=(path, nbytes, theirs))
    reader.start()
    tensor = np.random.default_rng(0).integers(0, 255, nbytes, dtype=np.uint8)
    spent = []
    for _ in range(rounds):
        began = time.monotonic_ns()
        shared[:] = tensor
        ours.send_bytes(began.to_bytes(8, "big"))
        spent.append(int.from_bytes(ours.recv_bytes(), "big") / 1000)
    ours.send_bytes(bytes(8))
    reader.join()
    return statistics.median(spent)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--window", type=int, default=16)
    options = parser.parse_args()
    print(describe())
    run_dir = RunDir()
    node = Node(MAIN, 0, run_dir.path, inline_bytes=INLINE_BYTES, relay_bytes=RELAY_BYTES)
    await node.start()
    source = Source()
    node.attach(CLIENT, source)
    worker = multiprocessing.get_context("spawn").Process(target=run_worker, args=(str(run_dir.path), node.endpoint))
    worker.start()
    node.peer_up(WORKER, 0, f"ipc://{run_dir.path}/{WORKER}.0.sock")
    print(f"{'tensor':>8} {'p50 us':>9} {'p95 us':>9} {'plain us':>9} {'p50/plain':>10} {'msg/s':>9} {'MB/s':>9}")
    for name, nbytes in SIZES.items():
        rounds = options.rounds if nbytes < 1 << 20 else options.rounds // 10
        hops = sorted(await latency(node, source, nbytes, rounds))
        floor = plain_copy(run_dir.path, nbytes, max(rounds // 4, 20))
        rate = await throughput(node, source, nbytes, rounds, options.window)
        p50, p95 = hops[len(hops) // 2], hops[int(len(hops) * 0.95)]
        megabytes = rate * nbytes / 1e6
        print(f"{name:>8} {p50:>9.0f} {p95:>9.0f} {floor:>9.0f} {p50 / floor:>10.2f} {rate:>9.0f} {megabytes:>9.0f}")
    node.send(WORKER, "", Shutdown())
    await asyncio.to_thread(worker.join, 5)
    await node.close()
    run_dir.close()


if __name__ == "__main__":
    asyncio.run(main())
