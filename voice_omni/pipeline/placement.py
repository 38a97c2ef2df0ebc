"""What a placement implies: which nodes run a process, and which of them exchange device tensors. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from voice_omni.config.settings import ProcessSettings
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.spec import PipelineSpec


def nodes_of(name: str, process: ProcessSettings) -> tuple[str, ...]:
    """The names of the nodes that run copies of the process ``name``."""
    return (MAIN,) if process.inline else tuple(f"{name}.{copy}" for copy in range(process.replicas))


@dataclass(frozen=True, slots=True)
class DeviceLinks:
    """``feeders``: the nodes that write tensors into this process's device memory. ``feeds``: whether this process
    writes into that of others."""

    feeders: tuple[str, ...]
    feeds: bool

    def __bool__(self) -> bool:
        return self.feeds or bool(self.feeders)


def device_links(spec: PipelineSpec, processes: Mapping[str, ProcessSettings], process: str) -> DeviceLinks:
    """Between which nodes device tensors pass without the host: along each edge out of a stage that is declared to
    send such, when the processes of both its ends are on devices, the same or two.

    The server's own process is none of them: stages run inline for debugging.
    """
    feeders = [
        node
        for name, other in processes.items()
        if name != process and _feeds(spec, other, processes[process])
        for node in nodes_of(name, other)
    ]
    feeds = any(_feeds(spec, processes[process], other) for name, other in processes.items() if name != process)
    return DeviceLinks(tuple(feeders), feeds)


def _feeds(spec: PipelineSpec, source: ProcessSettings, target: ProcessSettings) -> bool:
    if any(process.inline or process.device == "cpu" for process in (source, target)):
        return False
    senders = [spec.stage(name) for name in source.stages]
    reached = {name for stage in senders if stage.device_tensors for name in stage.payload_to + stage.stream_to}
    return not reached.isdisjoint(target.stages)
