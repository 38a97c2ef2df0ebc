"""Starts the stage processes, watches over them, and starts those again that die or hang."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from voice_omni.config.settings import LimitSettings
from voice_omni.pipeline import runqueue
from voice_omni.pipeline.node import Node
from voice_omni.pipeline.rundir import RunDir, socket_name
from voice_omni.pipeline.runqueue import ThreadTimes
from voice_omni.pipeline.watchdog import Backoff, Watchdog
from voice_omni.pipeline.worker import WorkerJob
from voice_omni.proto.errors import ErrorInfo, OmniError
from voice_omni.proto.messages import (
    Heartbeat,
    Loading,
    Message,
    PeerDown,
    PeerUp,
    Ready,
    Shutdown,
    StartFailed,
)

logger = logging.getLogger(__name__)


class NodeState(Enum):
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"


@dataclass(slots=True)
class WorkerNode:
    """One supervised process and what it last told of itself."""

    job: WorkerJob
    backoff: Backoff
    state: NodeState = NodeState.DOWN
    process: asyncio.subprocess.Process | None = None
    restarts: int = 0
    started_at: float = 0.0
    heartbeat: Heartbeat | None = None
    error: ErrorInfo | None = None
    watchdog: Watchdog | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    stuck: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.job.node


@dataclass(frozen=True, slots=True)
class SupervisorEvents:
    """What the owner is told: a line of progress, a node that serves. A node that dies is told to the main node's
    handlers like to every other node's."""

    on_loading: Callable[[str, str, str], None]
    on_up: Callable[[str], None]


class Supervisor:
    """One task for each process, over all its incarnations."""

    def __init__(
        self,
        jobs: Mapping[str, WorkerJob],
        node: Node,
        run_dir: RunDir,
        limits: LimitSettings,
        events: SupervisorEvents,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._run_dir = run_dir
        self._limits = limits
        self._events = events
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self.workers = {
            name: WorkerNode(job, Backoff(limits.restart_first_s, limits.restart_max_s)) for name, job in jobs.items()
        }

    async def start(self) -> None:
        """Returns when every process serves.

        Raises :class:`OmniError`: what a process said when it could not start, or ``start_failed`` when one was not
        ready in time. A process that fails to start for the first time is not tried again.
        """
        for worker in self.workers.values():
            await self._launch(worker)
        try:
            async with asyncio.timeout(self._limits.start_deadline_s):
                await asyncio.gather(*(self._first_start(worker) for worker in self.workers.values()))
        except TimeoutError:
            late = ", ".join(worker.name for worker in self.workers.values() if not worker.ready.is_set())
            seconds = f"{self._limits.start_deadline_s:g}"
            raise OmniError("start_failed", f"not ready within {seconds} s: {late}") from None
        self._tasks = [asyncio.create_task(self._supervise(worker)) for worker in self.workers.values()]

    async def stop(self) -> None:
        """Ask every process to end, and kill those that do not within the abort deadline."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(worker) for worker in self.workers.values()))

    def on_control(self, message: Message) -> None:
        """Messages of the stage processes to the main node."""
        match message:
            case Heartbeat(node, incarnation):
                if self.workers[node].job.incarnation == incarnation:
                    self._heard(self.workers[node], message)
            case Loading(node, stage, text):
                self._events.on_loading(node, stage, text)
            case Ready(node, incarnation):
                if self.workers[node].job.incarnation == incarnation:
                    self._came_up(self.workers[node])
            case StartFailed(node, incarnation, error):
                if self.workers[node].job.incarnation == incarnation:
                    self.workers[node].error = error
            case _:
                logger.error("the supervisor cannot handle a %s", type(message).__name__)

    def _heard(self, worker: WorkerNode, heartbeat: Heartbeat) -> None:
        worker.heartbeat = heartbeat
        if worker.watchdog is not None:
            worker.watchdog.heard(self._clock())
        busy_ms = max((stats.get("busy_ms", 0) for stats in heartbeat.stages.values()), default=0)
        if busy_ms > self._limits.batch_deadline_s * 1000:
            worker.stuck.set()

    # -- one process ---------------------------------------------------------------------------------------------

    async def _launch(self, worker: WorkerNode) -> None:
        worker.state = NodeState.STARTING
        worker.ready.clear()
        worker.stuck.clear()
        worker.error = None
        worker.heartbeat = None
        worker.started_at = self._clock()
        worker.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "voice_omni.pipeline.worker",
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **worker.job.environment},
        )
        if worker.process.stdin is not None:
            worker.process.stdin.write(msgspec.json.encode(worker.job) + b"\n")
            with contextlib.suppress(ConnectionError):  # it died at once: its exit is noticed by whoever waits
                await worker.process.stdin.drain()

    async def _first_start(self, worker: WorkerNode) -> None:
        exited = asyncio.create_task(self._exit(worker))
        ready = asyncio.create_task(worker.ready.wait())
        try:
            await asyncio.wait((exited, ready), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                error = worker.error or ErrorInfo("start_failed", f"its process ended with code {exited.result()}")
                raise OmniError(error.code, f"{worker.name} cannot start: {error.message}", stage=error.stage)
        finally:
            exited.cancel()
            ready.cancel()

    async def _supervise(self, worker: WorkerNode) -> None:
        while True:
            how = await self._until_dead(worker)
            lived = self._clock() - worker.started_at
            self._went_down(worker)
            pause = worker.backoff.after(lived)
            logger.error("%s %s after %.1f s; starting it again in %.1f s", worker.name, how, lived, pause)
            await asyncio.sleep(pause)
            worker.restarts += 1
            worker.job = msgspec.structs.replace(worker.job, incarnation=worker.job.incarnation + 1)
            await self._launch(worker)

    async def _until_dead(self, worker: WorkerNode) -> str:
        """Returns when the process has ended, after killing it if it hangs; how it ended, for the log."""
        exited = asyncio.create_task(self._exit(worker))
        silent = asyncio.create_task(self._silence(worker))
        stuck = asyncio.create_task(worker.stuck.wait())
        try:
            await asyncio.wait((exited, silent, stuck), return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                return f"died with code {exited.result()}"
            self._kill(worker)
            await exited
            return silent.result() if silent.done() else "was stuck in one batch"
        finally:
            for task in (exited, silent, stuck):
                task.cancel()

    async def _exit(self, worker: WorkerNode) -> int:
        return await worker.process.wait() if worker.process is not None else -1

    async def _silence(self, worker: WorkerNode) -> str:
        """Returns when the process has been silent for too long, or has not become ready in time."""
        if worker.state is not NodeState.READY:
            try:
                async with asyncio.timeout(self._limits.start_deadline_s):
                    await worker.ready.wait()
            except TimeoutError:
                return "did not become ready"
        limits = self._limits
        watchdog = worker.watchdog = Watchdog(limits.hang_ms / 1000, limits.batch_deadline_s, self._clock())
        while True:
            # Each heartbeat puts the check off, so it is a timer that is set anew, not a poll.
            await asyncio.sleep(max(0.0, watchdog.due - self._clock()))
            if self._clock() >= watchdog.due and watchdog.is_hung(self._clock(), self._threads(worker)):
                return "was silent"

    def _threads(self, worker: WorkerNode) -> dict[int, ThreadTimes]:
        """What a report comes through: threads of the process, and those here that carry it."""
        here = runqueue.times(os.getpid(), runqueue.carriers())
        if worker.process is None or worker.heartbeat is None:
            return here
        return here | runqueue.times(worker.process.pid, worker.heartbeat.threads)

    def _kill(self, worker: WorkerNode) -> None:
        if worker.process is not None and worker.process.returncode is None:
            worker.process.kill()

    def _came_up(self, worker: WorkerNode) -> None:
        """Make the new process and the others known to each other."""
        incarnation, endpoint = worker.job.incarnation, self.endpoint(worker.job)
        worker.state = NodeState.READY
        worker.watchdog = None
        self._node.peer_up(worker.name, incarnation, endpoint)
        for other in self.workers.values():
            if other is not worker and other.state is NodeState.READY:
                self._node.send(other.name, "", PeerUp(worker.name, incarnation, endpoint))
                self._node.send(worker.name, "", PeerUp(other.name, other.job.incarnation, self.endpoint(other.job)))
        worker.ready.set()
        self._events.on_up(worker.name)

    def _went_down(self, worker: WorkerNode) -> None:
        incarnation = worker.job.incarnation
        worker.state = NodeState.DOWN
        worker.watchdog = None
        self._node.peer_down(worker.name, incarnation)
        for other in self.workers.values():
            if other.state is NodeState.READY:
                self._node.send(other.name, "", PeerDown(worker.name, incarnation))
        self._run_dir.remove_of(worker.name, incarnation)

    async def _end(self, worker: WorkerNode) -> None:
        if worker.process is None or worker.process.returncode is not None:
            return
        if worker.state is NodeState.READY:
            self._node.send(worker.name, "", Shutdown())
        else:
            self._kill(worker)
        try:
            async with asyncio.timeout(self._limits.abort_deadline_s):
                await worker.process.wait()
        except TimeoutError:
            logger.warning("%s did not end when asked to; killing it", worker.name)
            self._kill(worker)
            await worker.process.wait()

    @staticmethod
    def endpoint(job: WorkerJob) -> str:
        return f"ipc://{job.run_dir}/{socket_name(job.node, job.incarnation)}"
