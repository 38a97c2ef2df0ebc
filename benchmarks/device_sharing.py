"""What a stage's work takes on a GPU that has rested, or that another process uses.

    python -m benchmarks.device_sharing [--mps]

Three kinds of work, each timed from the host's call to the synchronised end:

- launches: 300 small products, one call each, as in a prefill or an encoder without a graph;
- graph: the same products as one CUDA graph, as in a decode step;
- read: 4 GB of memory read once, as the weights of a step are.

First alone, after the device has had nothing to do for a while: a GPU that rests lowers its clocks, and takes its time
to raise them again. The same with a trickle of work meanwhile. Then beside another process that launches graphs of
reads without a pause, as an engine that decodes does: without NVIDIA's MPS (``--mps``) the two have the device in turn.
Clocks are those that ``nvidia-smi`` reports.

``--device cpu`` tries the benchmark itself without a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.full_size.device import multi_process_service
from benchmarks.machine import describe

LAUNCHES = 300
WIDTH = 512
READ_BYTES = 4_000_000_000
RESTS_S = (0.0, 0.01, 0.05, 0.2, 0.5, 2.0)
TRICKLE_S = 0.005
NEIGHBOUR_READS = 4
"""Of the read bytes, in one graph of the neighbour's."""

Work = Callable[[], None]


class Device:
    """``cuda`` or ``cpu``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_gpu = name.startswith("cuda")
        self._scale = 1 if self.is_gpu else 1000

    def synchronize(self) -> None:
        if self.is_gpu:
            torch.cuda.synchronize(self.name)

    def launches(self) -> Work:
        rows = torch.randn(1, WIDTH, device=self.name)
        weights = torch.randn(WIDTH, WIDTH, device=self.name) / WIDTH**0.5

        def work() -> None:
            state = rows
            for _ in range(LAUNCHES):
                state = state @ weights

        return work

    def read(self) -> Work:
        memory = torch.ones(READ_BYTES // 4 // self._scale, device=self.name)
        return lambda: _discard(memory.sum())

    def graph(self, work: Work) -> Work:
        """Itself on a processor."""
        if not self.is_gpu:
            return work
        work()
        self.synchronize()
        captured: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            work()
        replay: Work = captured.replay
        return replay

    def timed(self, work: Work) -> float:
        """Milliseconds."""
        began = time.perf_counter()
        work()
        self.synchronize()
        return (time.perf_counter() - began) * 1000


def _discard(_: torch.Tensor) -> None:
    """The value is not needed."""


class Clock:
    """The latest clock of the GPU's multiprocessors in MHz, as ``nvidia-smi`` reports it every 20 ms."""

    def __init__(self) -> None:
        self.latest = "-"

    @contextmanager
    def watched(self) -> Iterator[None]:
        if shutil.which("nvidia-smi") is None:
            yield
            return
        query = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "--loop-ms=20", "--id=0"]
        process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        try:
            yield
        finally:
            process.terminate()
            reader.join()
            process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self.latest = line.strip()


def rested(device: Device, work: Work, rest_s: float, rounds: int, trickle: Work | None, clock: Clock) -> list[str]:
    """Median and worst of the work after each rest, and the clocks that were reported just before it."""
    spent, clocks = [], []
    for _ in range(rounds):
        # As fast as it becomes.
        until = time.perf_counter() + 0.2
        while time.perf_counter() < until:
            device.timed(work)
        wake = time.perf_counter() + rest_s
        while trickle is not None and time.perf_counter() + TRICKLE_S < wake:
            time.sleep(TRICKLE_S)
            device.timed(trickle)
        time.sleep(max(0.0, wake - time.perf_counter()))
        clocks.append(clock.latest)
        spent.append(device.timed(work))
    return [f"{statistics.median(spent):.2f}", f"{max(spent):.2f}", clocks[-1]]


def neighbour(name: str, ready: Any, stop: Any) -> None:
    """Another process: one graph after the other, two of them under way."""
    device = Device(name)
    read = device.read()

    def reads() -> None:
        for _ in range(NEIGHBOUR_READS):
            read()

    step = device.graph(reads)
    ends: list[Any] = []
    ready.set()
    while not stop.is_set():
        step()
        if device.is_gpu:
            event: Any = torch.cuda.Event
            ends.append(event())
            ends[-1].record()
            if len(ends) > 1:
                ends.pop(0).synchronize()


@contextmanager
def beside(name: str) -> Iterator[None]:
    spawning = multiprocessing.get_context("spawn")
    ready, stop = spawning.Event(), spawning.Event()
    process = spawning.Process(target=neighbour, args=(name, ready, stop), daemon=True)
    process.start()
    ready.wait()
    try:
        yield
    finally:
        stop.set()
        process.join()


def row(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def measure(device: Device, rounds: int, rests: Sequence[float]) -> None:
    launches, read = device.launches(), device.read()
    kinds = {"launches": launches, "graph": device.graph(launches), "read": read}
    clock = Clock()
    with clock.watched():
        row(["work", "after", "ms, median", "worst", "clock before, MHz"])
        row(["---"] * 5)
        for name, work in kinds.items():
            for rest_s in rests:
                row([name, f"{rest_s * 1000:.0f} ms of rest", *rested(device, work, rest_s, rounds, None, clock)])
            longest = max(rests)
            after = f"{longest * 1000:.0f} ms of a trickle"
            row([name, after, *rested(device, work, longest, rounds, kinds["graph"], clock)])
        with beside(device.name):
            for name, work in kinds.items():
                spent = [device.timed(work) for _ in range(10 * rounds)]
                found = [f"{statistics.median(spent):.2f}", f"{max(spent):.2f}", clock.latest]
                row([name, "another process computes", *found])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--rests", type=lambda text: tuple(map(float, text.split(","))), default=RESTS_S, help="seconds"
    )
    parser.add_argument("--mps", action="store_true", help="run under NVIDIA's multi-process service")
    options = parser.parse_args(arguments)
    print(describe(), flush=True)
    with multi_process_service(options.mps) as service:
        print(service, flush=True)
        measure(Device(options.device), options.rounds, options.rests)


if __name__ == "__main__":
    main()
