"""Settings on their way to a stage's process, as JSON-like builtins."""

from __future__ import annotations

from typing import Any

import msgspec

from voice_omni.config.settings import (
    SCHEDULER_OPTIONS,
    LimitSettings,
    ProcessSettings,
    Settings,
    StageSettings,
)
from voice_omni.pipeline.spec import PipelineSpec


def to_wire(settings: Settings) -> dict[str, Any]:
    """What a stage's process needs of the settings."""
    wire: dict[str, Any] = msgspec.to_builtins(
        {
            "processes": settings.processes,
            "stages": settings.stages,
            "limits": settings.limits,
            "model": settings.model,
        }
    )
    return wire


def from_wire(spec: PipelineSpec, wire: dict[str, Any]) -> Settings:
    """The inverse of :func:`to_wire`; each stage's options get the type that the pipeline declares for them."""
    stages = {}
    for stage in spec.stages:
        data = wire["stages"][stage.name]
        stages[stage.name] = StageSettings(
            options=msgspec.convert(data["options"], stage.options),
            scheduler=msgspec.convert(data["scheduler"], SCHEDULER_OPTIONS[stage.scheduler]),
            credits=data["credits"],
        )
    return Settings(
        pipeline=spec.name,
        processes=msgspec.convert(wire["processes"], dict[str, ProcessSettings]),
        stages=stages,
        limits=msgspec.convert(wire["limits"], LimitSettings),
        model=wire["model"],
    )
