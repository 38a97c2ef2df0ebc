"""A healthy stage process that gets no processor lives, also where it is silent for longer than a hung one may be."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.pipelines import collect, launch, text_request, toy_settings
from voice_omni.pipeline.supervisor import WorkerNode

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system counts no waits")


HANG_MS = 400.0


@contextmanager
def starved(pid: int) -> Iterator[None]:
    """A process in the lowest scheduling class, on the same processor as eight that never rest."""
    processors = os.sched_getaffinity(0)
    with ExitStack() as greedy:
        for _ in range(8):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            greedy.callback(process.wait)
            greedy.callback(process.kill)
            os.sched_setaffinity(process.pid, {min(processors)})
        schedule(pid, os.SCHED_IDLE, {min(processors)})
        yield
    schedule(pid, os.SCHED_OTHER, processors)


def schedule(pid: int, policy: int, processors: set[int]) -> None:
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        os.sched_setaffinity(thread, processors)
        os.sched_setscheduler(thread, policy, os.sched_param(0))


async def until_silent(worker: WorkerNode, seconds: float) -> None:
    """Returns when no report has come for so long, or when the process is not the same any more."""
    pid, last, since = worker.process, worker.heartbeat, time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while time.monotonic() < since + seconds and worker.process is pid:
            await asyncio.sleep(0.01)
            if worker.heartbeat is not last:
                last, since = worker.heartbeat, time.monotonic()


async def test_a_starved_process_is_not_taken_for_a_hung_one(tmp_path: Path) -> None:
    text = "a lot to say " * 50
    async with launch(toy_settings(heartbeat_ms=50.0, hang_ms=HANG_MS), tmp_path) as pipeline:

        async def say() -> None:
            said, _ = await collect(await pipeline.coordinator.submit(text_request(str(next(numbers)), text)))
            assert said == text

        async def say_on() -> None:
            while not silent.done():
                await say()

        numbers, worker = itertools.count(), pipeline.supervisor.workers["think.0"]
        assert worker.process is not None
        with starved(worker.process.pid):
            silent = asyncio.create_task(until_silent(worker, 1.25 * HANG_MS / 1000))
            saying = asyncio.create_task(say_on())
            await silent
            assert worker.restarts == 0
        await saying
        assert worker.restarts == 0
