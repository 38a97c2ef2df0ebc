"""Starting the toy pipeline, and looking at what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tests.support.patience import PATIENCE_S
from tests.support.toy import PIPELINE
from voice_omni.config.settings import ProcessSettings, Settings, default_settings
from voice_omni.pipeline.coordinator import RequestHandle
from voice_omni.pipeline.launcher import Launcher
from voice_omni.proto.payload import Data, OmniRequest

PATIENT = {"hang_ms": 60_000.0, "abort_deadline_s": PATIENCE_S, "restart_wait_s": PATIENCE_S}
"""Limits of a pipeline that does not take a busy machine for a fault: a process that gets no processor lives."""

STAGES = tuple(stage.name for stage in PIPELINE.stages)


def toy_settings(
    *,
    delays_ms: Mapping[str, float] | None = None,
    processes: Mapping[str, ProcessSettings] | None = None,
    credits: int = 16,
    **limits: Any,
) -> Settings:
    settings = default_settings(PIPELINE)
    stages = {
        name: msgspec.structs.replace(
            stage,
            options=msgspec.structs.replace(stage.options, delay_ms=(delays_ms or {}).get(name, 0.0)),
            credits=256 if name == "think" else credits,
        )
        for name, stage in settings.stages.items()
    }
    return msgspec.structs.replace(
        settings,
        processes=dict(processes or settings.processes),
        stages=stages,
        limits=msgspec.structs.replace(settings.limits, **{"max_requests": 256, **PATIENT, **limits}),
    )


INLINE = {"all": ProcessSettings(stages=STAGES, inline=True)}
"""Every stage in the test's own process: fast, for what needs no processes."""


def patient(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, **PATIENT))


def launch(settings: Settings, run_base: Path) -> Launcher:
    return Launcher(PIPELINE, settings, run_base=run_base)


def text_request(request_id: str, text: str, **params: Any) -> OmniRequest:
    return OmniRequest(
        request_id=request_id,
        route="text",
        inputs={"messages": [{"role": "user", "content": text}]},
        params=params,
    )


async def collect(handle: RequestHandle) -> tuple[str, NDArray[np.float32]]:
    """Everything that the stages say and sing."""
    text, audio = "", [np.zeros(0, np.float32)]
    async for output in handle:
        text += output.data.get("text", "")
        if "audio" in output.data:
            audio.append(output.data["audio"])
    return text, np.concatenate(audio)


def held(pipeline: Launcher) -> dict[str, int]:
    """Every count that is not 0 in the pipeline as it was last reported: what is held somewhere."""
    health = pipeline.health()
    counts = {f"coordinator.{name}": count for name, count in health["requests"].items()}
    for process, state in health["processes"].items():
        for stage, stats in state["stages"].items():
            counts |= {f"{process}.{stage}.{name}": count for name, count in stats.items()}
    return {name: count for name, count in counts.items() if count}


async def until_idle(pipeline: Launcher, patience_s: float = PATIENCE_S) -> Data:
    """What is still held after the stages had time to let go of everything: an empty dictionary."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while held(pipeline) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(pipeline.settings.limits.heartbeat_ms / 1000)
    return dict(held(pipeline))
