"""Puts a pipeline together: the run's folder, the main node, the stage processes, and the coordinator over them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from voice_omni.config.settings import Settings
from voice_omni.config.wire import to_wire
from voice_omni.pipeline.binding import Binder, Replicas
from voice_omni.pipeline.coordinator import Coordinator
from voice_omni.pipeline.host import StageHost
from voice_omni.pipeline.node import MAIN, Node
from voice_omni.pipeline.placement import nodes_of
from voice_omni.pipeline.rundir import RunDir
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.pipeline.supervisor import NodeState, Supervisor, SupervisorEvents
from voice_omni.pipeline.topology import Topology
from voice_omni.pipeline.worker import WorkerJob, resident_bytes
from voice_omni.proto.payload import CLIENT
from voice_omni.relay import cuda_driver

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, str], None]


class Launcher:
    """A running pipeline while it is entered as an asynchronous context.

    ``stages`` None starts all of them; otherwise only these, for a use that needs one route. ``on_progress`` gets a
    stage's name and a line about its loading. Entering raises :class:`OmniError` if a stage cannot start.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        settings: Settings,
        *,
        stages: Collection[str] | None = None,
        on_progress: OnProgress = lambda stage, text: None,
        run_base: Path | None = None,
    ) -> None:
        self.spec = spec
        self.settings = settings
        self.topology = Topology(spec)
        self._on_progress = on_progress
        self._run_base = run_base
        self._wanted = tuple(stage.name for stage in spec.stages if stages is None or stage.name in stages)
        self._exit = contextlib.AsyncExitStack()
        self._inline: list[StageHost] = []
        self.coordinator: Coordinator
        self.supervisor: Supervisor

    async def __aenter__(self) -> Launcher:
        try:
            await self._start()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def _start(self) -> None:
        limits = self.settings.limits
        replicas = self._replicas()
        run_dir = RunDir(self._run_base, [MAIN, *(node for each in replicas.values() for node in each.nodes)])
        self._exit.callback(run_dir.close)
        node = Node(MAIN, 0, run_dir.path, inline_bytes=limits.inline_bytes, relay_bytes=limits.relay_bytes)
        await node.start()
        self._exit.push_async_callback(node.close)
        credits = {name: stage.credits for name, stage in self.settings.stages.items()}
        binder = Binder(replicas)
        self.coordinator = Coordinator(self.topology, node, binder, credits, limits)
        node.attach(CLIENT, self.coordinator)
        self._node = node
        events = SupervisorEvents(lambda _, stage, text: self._on_progress(stage, text), self.coordinator.node_up)
        self.supervisor = Supervisor(self._jobs(node, run_dir), node, run_dir, limits, events)
        node.on_control(self.supervisor.on_control)
        self._exit.push_async_callback(self.supervisor.stop)
        await self.supervisor.start()
        for name, process in self.settings.processes.items():
            members = self._members(process.stages)
            if process.inline and members:
                await asyncio.to_thread(cuda_driver.require, process.device)
                host = StageHost(self.topology, self.settings, name, node, self._on_inline_fatal)
                self._exit.push_async_callback(host.stop)
                await host.start(members, self._on_progress)
                self._inline.append(host)
        if self._inline:
            self.coordinator.node_up(MAIN)

    def _on_inline_fatal(self, stage: str, error: BaseException) -> None:
        """An inline stage shares the server's fate: that is what running inside its process means."""
        logger.critical("the scheduler of the inline stage %s died", stage, exc_info=error)
        self.coordinator.on_peer_down(MAIN)

    def _members(self, stages: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(stage for stage in stages if stage in self._wanted)

    def _replicas(self) -> dict[str, Replicas]:
        replicas = {}
        for name, process in self.settings.processes.items():
            replicas[name] = Replicas(self._members(process.stages), nodes_of(name, process))
        return replicas

    def _jobs(self, node: Node, run_dir: RunDir) -> dict[str, WorkerJob]:
        wire = to_wire(self.settings)
        jobs: dict[str, WorkerJob] = {}
        for name, process in self.settings.processes.items():
            members = self._members(process.stages)
            if process.inline or not members:
                continue
            for worker in nodes_of(name, process):
                jobs[worker] = WorkerJob(
                    node=worker,
                    incarnation=0,
                    process=name,
                    stages=members,
                    run_dir=str(run_dir.path),
                    main_endpoint=node.endpoint,
                    pipeline=self.spec.module,
                    settings=wire,
                    log_level=logging.getLogger().getEffectiveLevel(),
                    environment=process.environment,
                )
        return jobs

    # -- health --------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether every process serves."""
        return all(worker.state is NodeState.READY for worker in self.supervisor.workers.values())

    def health(self) -> dict[str, Any]:
        """State, restarts, memory and counts of every process and stage, for people and for monitoring."""
        processes: dict[str, Any] = {}
        for worker in self.supervisor.workers.values():
            beat = worker.heartbeat
            processes[worker.name] = {
                "state": worker.state.value,
                "pid": worker.process.pid if worker.process is not None else None,
                "restarts": worker.restarts,
                "rss_bytes": beat.rss_bytes if beat else 0,
                "stages": beat.stages if beat else {},
            }
        processes[MAIN] = {
            "state": NodeState.READY.value,
            "pid": None,
            "restarts": 0,
            "rss_bytes": resident_bytes(),
            "stages": {"": self._node.stats(), **{k: v for host in self._inline for k, v in host.stats().items() if k}},
        }
        return {
            "pipeline": self.spec.name,
            "ready": self.ready,
            "processes": processes,
            "requests": self.coordinator.stats(),
            "totals": dict(self.coordinator.counts),
            "limits": {"max_requests": self.settings.limits.max_requests},
        }
