"""Settings of the stages that generate, with their defaults."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class ThinkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the thinker. A request's ``params`` may override ``temperature``, ``max_new_tokens``
    (``max_output_tokens``) and the seed (``seed``)."""

    temperature: Annotated[float, Meta(ge=0, le=2, description="0 always takes the likeliest token")] = 0.0
    top_k: Annotated[int, Meta(ge=0, description="draw from so many tokens; 0: from all")] = 0
    top_p: Annotated[float, Meta(gt=0, le=1, description="draw from the likeliest tokens with this much in sum")] = 1.0
    repetition_penalty: Annotated[float, Meta(ge=1, le=2, description="on tokens that the answer has; 1 is none")] = 1.0
    max_new_tokens: Annotated[int, Meta(ge=1, description="tokens of an answer at most")] = 1024
    kept_positions: Annotated[
        int, Meta(ge=0, description="positions of earlier turns whose KV is kept for their sessions, in all")
    ] = 16_384


class TalkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the talker; the code predictor's are fixed. A request's ``params`` may say ``voice`` and ``seed``."""

    voice: Annotated[str, Meta(description="who speaks where a request does not say")] = "ethan"
    temperature: Annotated[float, Meta(ge=0, le=2, description="0 always takes the likeliest codes")] = 0.9
    top_k: Annotated[int, Meta(ge=0, description="draw from so many codes; 0: from all")] = 50
    top_p: Annotated[float, Meta(gt=0, le=1, description="draw from the likeliest codes with this much in sum")] = 1.0
    repetition_penalty: Annotated[
        float, Meta(ge=1, le=2, description="on first codes that the answer has; 1 is none")
    ] = 1.05
    max_new_tokens: Annotated[
        int, Meta(ge=2, description="an answer has one frame less than this at most, 12.5 frames a second")
    ] = 4096
    kept_positions: Annotated[
        int, Meta(ge=0, description="positions of earlier turns whose KV is kept for their sessions, in all")
    ] = 16_384
