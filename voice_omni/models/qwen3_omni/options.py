"""Settings of the pipeline's stages, with their defaults."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from voice_omni.engines.sglang.options import SglangSettings

Precision = Annotated[
    Literal["checkpoint", "float32", "bfloat16", "float16"],
    Meta(description="what the weights are computed in; checkpoint: as they are stored"),
]
BackboneEngine = Annotated[
    Literal["torch", "sglang"],
    Meta(description="what runs the backbone: plain PyTorch, the reference, or SGLang, made for many rows on a GPU"),
]


Count = Annotated[int, Meta(ge=1)]


class PreprocessOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of preprocessing. A request's ``params`` may override the system prompt (``instructions``)."""

    system_prompt: Annotated[str, Meta(description="what the model is told before every conversation")] = (
        "You are a helpful voice assistant. Answer briefly, in sentences that can be spoken."
    )
    transcribe_prompt: Annotated[str, Meta(description="how the model is asked to write down what was said")] = (
        "Transcribe the audio into text. Write only what was said."
    )
    speak_prompt: Annotated[str, Meta(description="what the person says before a text that is only spoken")] = (
        "Read this aloud."
    )
    context_tokens: Annotated[
        int, Meta(ge=256, description="tokens of a prompt at most; the oldest messages are left out for it")
    ] = 32_768
    max_media_mb: Annotated[int, Meta(ge=1, description="encoded picture, film or recording, megabytes at most")] = 32
    max_media_s: Annotated[float, Meta(gt=0, description="seconds of a film or a recording at most")] = 600.0
    film_fps: Annotated[float, Meta(gt=0, le=30, description="frames that are taken of each second of a film")] = 2.0
    film_frames: Annotated[int, Meta(ge=2, description="frames of a film at most; of a longer one fewer a second")] = (
        128
    )


class ImageEncoderOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the vision tower."""

    precision: Precision = "checkpoint"


class AudioEncoderOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the audio tower."""

    precision: Precision = "checkpoint"
    window_s: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="seconds that are encoded together, each window as soon as it is there; 0: as the checkpoint "
            "says, which is what it gives offline",
        ),
    ] = 2
    tolerance_db: Annotated[
        float,
        Meta(
            ge=0, le=40, description="how far louder speech may raise the floor of earlier sound unnoticed; 0 is exact"
        ),
    ] = 0.0
    max_seconds: Annotated[float, Meta(gt=0, description="seconds of one person's turn at most")] = 600.0
    remembered_windows: Annotated[
        int, Meta(ge=0, description="windows kept for when the same sound comes again, 0.2 MB each")
    ] = 512
    graph_windows: Annotated[
        tuple[Count, ...],
        Meta(
            description="on a GPU: numbers of windows that are encoded as one launch, 64 seconds at most; [] for none"
        ),
    ] = (1, 2, 4, 8, 16, 32)


class DecodeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The detokeniser has no settings."""


class Code2WavOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the decoder from codec frames to samples."""

    precision: Precision = "checkpoint"
    max_streams: Annotated[
        int, Meta(ge=1, description="answers spoken at the same time at most; memory for each is taken at start")
    ] = 64
    graph_streams: Annotated[
        tuple[Count, ...], Meta(description="on a GPU: numbers of streams that are decoded as one launch; [] for none")
    ] = (1, 2, 4, 8, 16, 24, 32, 48, 64)
    graph_frames: Annotated[
        tuple[Count, ...],
        Meta(description="numbers of frames of each stream that are decoded so; of a new stream only 1"),
    ] = (1, 2, 3, 4, 6, 8, 12, 16, 25)
    graph_size: Annotated[
        int, Meta(ge=1, description="frames of such a launch at most, all its streams together; bounds its memory")
    ] = 128


class ThinkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the thinker. A request's ``params`` may override ``temperature``, ``max_new_tokens``
    (``max_output_tokens``) and the seed (``seed``). ``sglang`` and ``kept_positions`` count with their engine alone."""

    precision: Precision = "checkpoint"
    engine: BackboneEngine = "torch"
    sglang: SglangSettings = SglangSettings()
    temperature: Annotated[float, Meta(ge=0, le=2, description="0 always takes the likeliest token")] = 0.0
    top_k: Annotated[int, Meta(ge=0, description="draw from so many tokens; 0: from all")] = 0
    top_p: Annotated[float, Meta(gt=0, le=1, description="draw from the likeliest tokens with this much in sum")] = 1.0
    repetition_penalty: Annotated[float, Meta(ge=1, le=2, description="on tokens that the answer has; 1 is none")] = 1.0
    ignore_eos: Annotated[
        bool, Meta(description="answers end by their length alone, so that measurements can be compared")
    ] = False
    max_new_tokens: Annotated[int, Meta(ge=1, description="tokens of an answer at most")] = 1024
    kept_positions: Annotated[
        int,
        Meta(ge=0, description="positions of earlier turns whose KV the torch engine keeps for their sessions, in all"),
    ] = 16_384


class TalkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the talker; the code predictor's are fixed. A request's ``params`` may say ``voice`` and ``seed``.
    ``sglang`` and ``kept_positions`` count with their engine alone."""

    precision: Precision = "checkpoint"
    engine: BackboneEngine = "torch"
    sglang: SglangSettings = SglangSettings()
    voice: Annotated[str, Meta(description="who speaks where a request does not say")] = "ethan"
    temperature: Annotated[float, Meta(ge=0, le=2, description="0 always takes the likeliest codes")] = 0.9
    top_k: Annotated[int, Meta(ge=0, description="draw from so many codes; 0: from all")] = 50
    top_p: Annotated[float, Meta(gt=0, le=1, description="draw from the likeliest codes with this much in sum")] = 1.0
    repetition_penalty: Annotated[
        float, Meta(ge=1, le=2, description="on first codes that the answer has; 1 is none")
    ] = 1.05
    ignore_eos: Annotated[
        bool, Meta(description="answers end by their length alone, so that measurements can be compared")
    ] = False
    max_new_tokens: Annotated[
        int, Meta(ge=2, description="an answer has one frame less than this at most, 12.5 frames a second")
    ] = 4096
    kept_positions: Annotated[
        int,
        Meta(ge=0, description="positions of earlier turns whose KV the torch engine keeps for their sessions, in all"),
    ] = 16_384
