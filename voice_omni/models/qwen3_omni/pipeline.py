"""The Qwen3-Omni pipeline: speech, text, pictures and films in; text and speech out."""

from __future__ import annotations

from voice_omni.models.qwen3_omni.options import (
    AudioEncoderOptions,
    Code2WavOptions,
    DecodeOptions,
    ImageEncoderOptions,
    PreprocessOptions,
    TalkerOptions,
    ThinkerOptions,
)
from voice_omni.models.qwen3_omni.weights import QWEN3_OMNI_30B
from voice_omni.pipeline.spec import PipelineSpec, StageSpec

_STAGES = "voice_omni.models.qwen3_omni.stages"
_ENTRY = ("preprocess", "image_encoder", "audio_encoder", "thinker", "decode")
_VOICE = ("talker", "code2wav")

PIPELINE = PipelineSpec(
    name="qwen3_omni",
    module="voice_omni.models.qwen3_omni.pipeline",
    description="Qwen3-Omni: hears, sees, writes and speaks",
    stages=(
        StageSpec(
            name="preprocess",
            scheduler="simple",
            runner=f"{_STAGES}:preprocess",
            options=PreprocessOptions,
            stream_to=("image_encoder", "audio_encoder", "thinker", "talker"),
        ),
        StageSpec(
            name="image_encoder",
            scheduler="simple",
            runner=f"{_STAGES}:image_encoder",
            options=ImageEncoderOptions,
            stream_to=("thinker",),
        ),
        StageSpec(
            name="audio_encoder",
            scheduler="simple",
            runner=f"{_STAGES}:audio_encoder",
            options=AudioEncoderOptions,
            stream_to=("thinker",),
            input_stream=True,
        ),
        StageSpec(
            name="thinker",
            scheduler="omni",
            runner=f"{_STAGES}:thinker",
            options=ThinkerOptions,
            stream_to=("decode", "talker"),
            # A whole answer's tokens fit: they are small, and a thinker that waits for its answer to be heard would
            # hold its place in the engine meanwhile.
            credits=2048,
        ),
        StageSpec(
            name="decode",
            scheduler="simple",
            runner=f"{_STAGES}:decode",
            options=DecodeOptions,
            terminal=True,
        ),
        StageSpec(
            name="talker",
            scheduler="omni",
            runner=f"{_STAGES}:talker",
            options=TalkerOptions,
            stream_to=("code2wav",),
        ),
        StageSpec(
            name="code2wav",
            scheduler="code2wav",
            runner=f"{_STAGES}:code2wav",
            options=Code2WavOptions,
            # Sound begins with the first frame; a frame is 80 ms, and 25 of them decode well together. A batch is
            # bounded by its frames: a first frame that comes while one is computed waits for its end.
            scheduler_defaults={"first_frames": 1, "max_frames": 25, "max_batch": 64, "max_batch_frames": 128},
            terminal=True,
        ),
    ),
    routes={
        "speech": (*_ENTRY, *_VOICE),
        "text": (*_ENTRY, *_VOICE),
        "speech_text": _ENTRY,
        "text_text": _ENTRY,
        "speak": ("preprocess", *_VOICE),
        "transcribe": ("preprocess", "audio_encoder", "thinker", "decode"),
    },
    input_sample_rate=16_000,
    output_sample_rate=24_000,
    weights=(QWEN3_OMNI_30B.name,),
    checkpoint=QWEN3_OMNI_30B.name,
    voices=("ethan", "chelsie", "aiden"),
    images=True,
    transcribes=False,
    extra="torch",
)
