"""Settings of the starter pipeline's stages, with their defaults."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class EncoderOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the speech recogniser."""

    interim_s: Annotated[float, Meta(ge=0.2, description="seconds between transcripts shown while one speaks")] = 1.0
    padding_s: Annotated[
        float, Meta(ge=0.5, le=30, description="seconds of silence after the words; less is faster, but repeats them")
    ] = 6.0
    no_speech_threshold: Annotated[
        float, Meta(gt=0, le=1, description="probability of no speech from which on unsure words are dropped")
    ] = 0.6


class ThinkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the thinker. A request's ``params`` may override the system prompt (``instructions``),
    ``temperature``, ``max_new_tokens`` (``max_output_tokens``) and ``seed``."""

    system_prompt: Annotated[str, Meta(description="what the model is told before every conversation")] = (
        "You are a helpful AI assistant. Be brief."
    )
    examples: Annotated[
        bool, Meta(description="show the model a few short answers first; not with a request's own instructions")
    ] = True
    temperature: Annotated[float, Meta(ge=0, le=2, description="0 always takes the likeliest token")] = 0.0
    top_k: Annotated[int, Meta(ge=0, description="draw from so many tokens; 0: from all")] = 40
    top_p: Annotated[float, Meta(gt=0, le=1, description="draw from the likeliest tokens with this much in sum")] = 0.95
    repetition_penalty: Annotated[float, Meta(ge=1, le=2, description="1 is none")] = 1.05
    max_new_tokens: Annotated[int, Meta(ge=1, le=2048, description="tokens of an answer at most")] = 96
    sentence_tokens: Annotated[int, Meta(ge=1, description="an answer of so many tokens ends with its sentence")] = 40
    history_tokens: Annotated[int, Meta(ge=0, le=4096, description="tokens of earlier messages at most")] = 256
    message_tokens: Annotated[int, Meta(ge=16, le=2048, description="tokens of the last message at most")] = 512
    max_rows: Annotated[int, Meta(ge=1, le=64, description="answers computed at the same time at most")] = 4
    prefix_tokens: Annotated[
        int, Meta(ge=0, description="tokens of prompts whose KV cache is kept for later turns, 138 KB each")
    ] = 1536


class TalkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the talker. A request's ``params`` may override ``speed``, ``seed`` and ``voice``."""

    voice: Annotated[str, Meta(description="the voice to speak with")] = "joe"
    speed: Annotated[float, Meta(ge=0.5, le=2.0, description="pace of speech, 1.0 is the voice's own")] = 1.0
    seed: Annotated[int, Meta(ge=0, description="seed of the noise; the same text and seed give the same sound")] = 0
    noise_scale: (
        Annotated[float, Meta(ge=0, le=2, description="variation of sound; None is the voice's own")] | None
    ) = None
    noise_w: Annotated[float, Meta(ge=0, le=2, description="variation of timing; None is the voice's own")] | None = (
        None
    )
    phrase_pause: Annotated[
        float, Meta(ge=0, le=2, description="silence after a clause within a sentence, seconds")
    ] = 0.0
    sentence_pause: Annotated[float, Meta(ge=0, le=2, description="silence after a sentence, seconds")] = 0.2
    paragraph_pause: Annotated[float, Meta(ge=0, le=5, description="silence after a paragraph, seconds")] = 0.5


class Code2WavOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the decoder from latent frames to samples."""

    gain: Annotated[float, Meta(gt=0, le=8, description="constant factor on the samples")] = 1.2
