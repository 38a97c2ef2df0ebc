"""The toy pipeline with a stage whose library is not installed."""

from __future__ import annotations

from dataclasses import replace

from tests.support import toy
from voice_omni.pipeline.spec import StageContext


def build(context: StageContext) -> None:
    import a_library_that_nobody_has  # type: ignore[import-not-found] # noqa: F401


PIPELINE = replace(
    toy.PIPELINE,
    module="tests.support.incomplete",
    stages=tuple(
        replace(stage, runner="tests.support.incomplete:build") if stage.name == "speak" else stage
        for stage in toy.PIPELINE.stages
    ),
    extra="songs",
)
