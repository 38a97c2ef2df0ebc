"""Which voice a session has."""

from __future__ import annotations

from voice_omni.session.parts import SessionParts
from voice_omni.session.speaker import EventSpeaker, Speaker
from voice_omni.session.track_speaker import Playback, TrackSpeaker


def speaker_of(parts: SessionParts) -> Speaker:
    """One that sends events, or the transport's own sink if it has one."""
    core, rate = parts.core, parts.client.output_sample_rate
    if parts.sink is None:
        return EventSpeaker(core.responses, parts.outbox, parts.options, rate, parts.clock)

    def tell(what: Playback, response_id: str) -> None:
        parts.outbox.put(core.playback(what, response_id))

    return TrackSpeaker(core.responses, parts.sink, parts.fence, parts.options, rate, parts.clock, tell)
