"""What the routes share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from voice_omni.client.interface import VoiceClient
from voice_omni.realtime.ids import IdFactory, random_id
from voice_omni.server.auth import Access
from voice_omni.session.counters import TurnCounters
from voice_omni.session.judge import TurnJudge
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.transports.webrtc.options import WebRtcOptions

HealthSource = Callable[[], Mapping[str, Any]]
"""The pipeline's state, ready to be encoded as JSON. Its ``ready`` says whether every stage can work."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The pipeline, as clients see it."""

    name: str
    description: str
    voices: tuple[str, ...]
    created: int = 0
    """Unix time."""
    images: bool = False
    """Whether the model takes pictures."""
    transcribes: bool = True
    """Whether its answers to speech also say what was heard."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the application needs from below it.

    ``judge``: of complete turns; None where its weights could not be loaded, so that ``semantic_vad`` is refused.
    ``max_sessions``: conversations at the same time; one more is told to come back later.
    """

    client: VoiceClient
    health: HealthSource
    model: ModelCard
    silero: SileroModel
    options: SessionOptions = field(default_factory=SessionOptions)
    max_sessions: int = 32
    judge: TurnJudge | None = None
    counters: TurnCounters = field(default_factory=TurnCounters)
    access: Access = field(default_factory=Access)
    webrtc: WebRtcOptions = field(default_factory=WebRtcOptions)
    ids: IdFactory = random_id
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
