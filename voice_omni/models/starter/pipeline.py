"""The starter pipeline: English speech in, speech out, offline on two processor cores."""

from __future__ import annotations

from voice_omni.models.starter.options import Code2WavOptions, EncoderOptions, TalkerOptions, ThinkerOptions
from voice_omni.models.starter.weights import WEIGHTS
from voice_omni.pipeline.spec import PipelineSpec, StageSpec

_PACKAGE = "voice_omni.models.starter"

PIPELINE = PipelineSpec(
    name="starter",
    module="voice_omni.models.starter.pipeline",
    description="Whisper tiny.en, SmolLM2-135M-Instruct and a VITS voice: English, offline, on two processor cores",
    stages=(
        StageSpec(
            name="encoder",
            scheduler="simple",
            runner=f"{_PACKAGE}.listen:build",
            options=EncoderOptions,
            payload_to=("thinker",),
            terminal=True,
            input_stream=True,
        ),
        StageSpec(
            name="thinker",
            scheduler="omni",
            runner=f"{_PACKAGE}.think:build",
            options=ThinkerOptions,
            stream_to=("talker",),
            terminal=True,
            # A whole answer's tokens fit: text is small, and a thinker that waits for the sound to be heard would have
            # to be computed again.
            credits=512,
        ),
        StageSpec(
            name="talker",
            scheduler="simple",
            runner=f"{_PACKAGE}.talker:build",
            options=TalkerOptions,
            stream_to=("code2wav",),
        ),
        StageSpec(
            name="code2wav",
            scheduler="code2wav",
            runner=f"{_PACKAGE}.code2wav:build",
            options=Code2WavOptions,
            terminal=True,
        ),
    ),
    routes={
        "speech": ("encoder", "thinker", "talker", "code2wav"),
        "text": ("thinker", "talker", "code2wav"),
        "speech_text": ("encoder", "thinker"),
        "text_text": ("thinker",),
        "speak": ("talker", "code2wav"),
        "transcribe": ("encoder",),
    },
    input_sample_rate=16_000,
    output_sample_rate=22_050,
    weights=tuple(weights.name for weights in WEIGHTS),
    voices=("joe",),
)
