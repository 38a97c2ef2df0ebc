"""What a session is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from voice_omni.client.interface import VoiceClient
from voice_omni.realtime.core import RealtimeCore
from voice_omni.realtime.dialect import Dialect
from voice_omni.realtime.ids import IdFactory
from voice_omni.session.counters import TurnCounters
from voice_omni.session.fence import EpochFence
from voice_omni.session.hearing import Hearing
from voice_omni.session.judge import TurnJudge
from voice_omni.session.options import SessionOptions
from voice_omni.session.outbox import Outbox
from voice_omni.session.track_speaker import SoundSink


@dataclass(frozen=True, slots=True)
class SessionParts:
    """Everything that a session does not make for itself.

    ``dialect``: the client's, into which the outbox translates. ``voices``: the pipeline's own. ``judge``: of complete
    turns, for ``semantic_vad``. ``clock``: monotonic seconds. ``sink``: of a transport that plays the answers' sound
    out itself; None if the client is sent it. ``transcribes``: whether the pipeline's answers to speech also tell what
    was heard; where they do not, turns are written down beside their answers.
    """

    client: VoiceClient
    core: RealtimeCore
    hearing: Hearing
    fence: EpochFence
    outbox: Outbox
    options: SessionOptions
    voices: Collection[str]
    ids: IdFactory
    dialect: Dialect = field(default_factory=Dialect)
    judge: TurnJudge | None = None
    counters: TurnCounters = field(default_factory=TurnCounters)
    clock: Callable[[], float] = time.monotonic
    include_timings: bool = False
    sink: SoundSink | None = None
    transcribes: bool = True
