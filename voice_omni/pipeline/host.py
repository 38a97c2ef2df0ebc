"""The stages of one process: loads their models, runs their schedulers' threads, reports their health."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

from voice_omni.config.settings import ProcessSettings, Settings
from voice_omni.pipeline.node import Node
from voice_omni.pipeline.outbox import LoopOutbox
from voice_omni.pipeline.spec import PipelineSpec, StageContext
from voice_omni.pipeline.stage import Stage
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.errors import OmniError, origin
from voice_omni.scheduling.build import build_scheduler
from voice_omni.scheduling.interface import Outgoing, Scheduler

OnLoading = Callable[[str, str], None]
OnFatal = Callable[[str, BaseException], None]


def load_pipeline(module: str) -> PipelineSpec:
    """The declaration ``PIPELINE`` of a module."""
    spec = importlib.import_module(module).PIPELINE
    if not isinstance(spec, PipelineSpec):
        raise OmniError("invalid_pipeline", f"{module}.PIPELINE is no PipelineSpec")
    return spec


class StageHost:
    """``on_fatal`` is called on the loop with a stage's name when its scheduler's thread has died."""

    def __init__(self, topology: Topology, settings: Settings, process: str, node: Node, on_fatal: OnFatal) -> None:
        self._topology = topology
        self._settings = settings
        self._process: ProcessSettings = settings.processes[process]
        self._node = node
        self._on_fatal = on_fatal
        self._stages: dict[str, Stage] = {}
        self._schedulers: dict[str, Scheduler] = {}
        self._threads: list[threading.Thread] = []

    async def start(self, stages: tuple[str, ...], on_loading: OnLoading) -> None:
        """Load the models of ``stages``, one after another, off the loop; returns when all are ready to serve."""
        loop = asyncio.get_running_loop()
        for name in stages:
            on_loading(name, "loading")
            runner = await asyncio.to_thread(self._build_runner, name)
            self._add(name, runner, loop)
            on_loading(name, "ready")

    def _build_runner(self, name: str) -> Any:
        spec = self._topology.spec
        module, _, function = spec.stage(name).runner.partition(":")
        context = StageContext(
            stage=name,
            options=self._settings.stages[name].options,
            device=self._process.device,
            threads=self._process.threads or os.cpu_count() or 1,
            model=self._settings.model,
        )
        try:
            return getattr(importlib.import_module(module), function)(context)
        except ModuleNotFoundError as error:
            if spec.extra is None:
                raise
            message = (
                f"{error}{origin(error)}. The pipeline {spec.name!r} needs: pip install 'voice-omni[{spec.extra}]'"
            )
            raise OmniError("missing_dependency", message, stage=name) from error

    def _add(self, name: str, runner: Any, loop: asyncio.AbstractEventLoop) -> None:
        settings = self._settings.stages[name]
        outbox = LoopOutbox(loop, lambda message: self._outgoing(name, message))
        scheduler = build_scheduler(settings.scheduler, runner, outbox)
        stage = Stage(name, self._topology, scheduler, self._node, credits=settings.credits)
        self._stages[name] = stage
        self._schedulers[name] = scheduler
        self._node.attach(name, stage)
        thread = threading.Thread(target=self._serve, args=(name, scheduler, loop), name=f"stage-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _outgoing(self, name: str, message: Outgoing) -> None:
        self._stages[name].on_outgoing(message)

    def _serve(self, name: str, scheduler: Scheduler, loop: asyncio.AbstractEventLoop) -> None:
        try:
            scheduler.start()
        except BaseException as error:  # noqa: BLE001 - handed to the owner, who ends the process
            loop.call_soon_threadsafe(self._on_fatal, name, error)

    def stats(self) -> dict[str, dict[str, int]]:
        """Per stage, and for the node itself under an empty name."""
        return {"": self._node.stats(), **{name: stage.stats() for name, stage in self._stages.items()}}

    async def stop(self) -> None:
        for scheduler in self._schedulers.values():
            scheduler.stop()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
