"""From a stage's declaration and settings to its scheduler."""

from __future__ import annotations

from typing import Any

from voice_omni.proto.errors import OmniError
from voice_omni.scheduling.code2wav import Code2WavScheduler
from voice_omni.scheduling.interface import Outbox, Scheduler
from voice_omni.scheduling.omni import OmniScheduler
from voice_omni.scheduling.options import Code2WavOptions, OmniOptions, SchedulerOptions, SimpleOptions
from voice_omni.scheduling.simple import SimpleScheduler


def build_scheduler(options: SchedulerOptions, runner: Any, outbox: Outbox) -> Scheduler:
    """``runner`` is what the stage's runner function returned: for :class:`OmniOptions` a runner and an engine."""
    match options:
        case SimpleOptions():
            return SimpleScheduler(runner, options, outbox)
        case Code2WavOptions():
            return Code2WavScheduler(runner, options, outbox)
        case OmniOptions():
            if not isinstance(runner, tuple):
                raise OmniError("invalid_pipeline", "the runner function of an omni stage must return (runner, engine)")
            model, engine = runner
            return OmniScheduler(model, engine, options, outbox)
