"""What a server tells about itself when it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from voice_omni.cli.table import table
from voice_omni.config import Settings
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.spec import PipelineSpec


def show_progress(stage: str, text: str) -> None:
    """A line on standard error about a stage that loads."""
    print(f"{stage + ':':<12}{text}", file=sys.stderr, flush=True)


def summary(spec: PipelineSpec, settings: Settings, health: Mapping[str, Any], url: str) -> str:
    """The pipeline, its processes with their memory, the limits in force and the address.

    ``health``: what :meth:`~voice_omni.pipeline.launcher.Launcher.health` returns.
    """
    rows = [("PROCESS", "STAGES", "PID", "MEMORY")]
    for node, process in health["processes"].items():
        name, stages = _placed(node, settings)
        rows.append((name, " ".join(stages) or "-", str(process["pid"] or os.getpid()), _size(process["rss_bytes"])))
    total = sum(process["rss_bytes"] for process in health["processes"].values())
    limits = settings.limits
    return "\n".join(
        (
            f"pipeline   {spec.name}: {spec.description}",
            f"memory     {_size(total)} resident in all processes",
            table(rows, right=frozenset({2, 3})),
            f"limits     {settings.server.max_sessions} sessions of {settings.session.max_duration_s} s, "
            f"{limits.max_requests} requests of {limits.request_deadline_s:g} s",
            f"listening  {url}  (Realtime: {url.replace('http', 'ws', 1)}/v1/realtime)",
        )
    )


def _placed(node: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """A node's name for people and the stages that live in it."""
    if node == MAIN:
        inline = (process.stages for process in settings.processes.values() if process.inline)
        return "server", tuple(stage for stages in inline for stage in stages)
    name = node.rpartition(".")[0]
    process = settings.processes[name]
    return node if process.replicas > 1 else name, process.stages


def _size(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
