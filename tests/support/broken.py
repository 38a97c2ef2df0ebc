"""The toy pipeline with a stage that cannot start."""

from __future__ import annotations

from dataclasses import replace

from tests.support import toy
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError


def build(context: StageContext) -> None:
    raise OmniError("weights_unavailable", "the weights are missing")


PIPELINE = replace(
    toy.PIPELINE,
    module="tests.support.broken",
    stages=tuple(
        replace(stage, runner="tests.support.broken:build") if stage.name == "speak" else stage
        for stage in toy.PIPELINE.stages
    ),
)
