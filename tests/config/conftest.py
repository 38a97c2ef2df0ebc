"""A small pipeline to configure."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from voice_omni.pipeline.spec import PipelineSpec, StageSpec


class ThinkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    temperature: Annotated[float, Meta(ge=0, le=2, description="randomness of the answer")] = 0.0
    system_prompt: Annotated[str, Meta(description="what the answer is like")] = "Be brief."
    voice: Annotated[str, Meta(description="who speaks; null is the model's own voice")] | None = None
    mode: Literal["fast", "exact"] = "fast"
    sizes: tuple[int, ...] = (1, 2)


class TalkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    speed: Annotated[float, Meta(gt=0)] = 1.0


@pytest.fixture
def spec() -> PipelineSpec:
    return PipelineSpec(
        name="duo",
        description="a thinker and a talker",
        stages=(
            StageSpec(
                "thinker", "omni", "m:f", ThinkerOptions, stream_to=("talker",), terminal=True, input_stream=True
            ),
            StageSpec("talker", "code2wav", "m:f", TalkerOptions, terminal=True, credits=4),
        ),
        routes={"speech": ("thinker", "talker"), "think": ("thinker",)},
        input_sample_rate=16000,
        output_sample_rate=22050,
    )
