"""Every default of turn-taking and delivery, in one table: value, unit and reason."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from voice_omni.realtime.settings import Audio, AudioInput, AudioOutput, ServerVad, Session


def _meta(unit: str, reason: str, *, ge: float | None = None, le: float | None = None) -> Meta:
    return Meta(ge=ge, le=le, description=reason, extra={"unit": unit})


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may set for every session. Clients can change the first four for theirs."""

    threshold: Annotated[
        float, _meta("probability", "speech begins at this probability of the voice activity model", ge=0, le=1)
    ] = 0.5
    prefix_padding_ms: Annotated[
        int, _meta("ms", "sound before the onset that belongs to the turn: soft first consonants", ge=0, le=5000)
    ] = 300
    silence_duration_ms: Annotated[
        int, _meta("ms", "silence that ends a turn; shorter cuts in on people who think", ge=0, le=10000)
    ] = 500
    instructions: Annotated[str, _meta("text", "system prompt; empty means the pipeline's own")] = ""
    hysteresis: Annotated[
        float, _meta("probability", "speech ends this far below the threshold, so that it does not flicker", ge=0, le=1)
    ] = 0.15
    min_speech_ms: Annotated[
        int, _meta("ms", "speech shorter than this starts no turn and interrupts nobody: clicks, coughs", ge=0)
    ] = 96
    min_resumption_ms: Annotated[int, _meta("ms", "speech after a pause shorter than this is a noise in it", ge=0)] = 64
    short_pause_ms: Annotated[
        int, _meta("ms", "silence after which an answer is begun in secret; pauses inside words are shorter", ge=0)
    ] = 128
    max_utterance_ms: Annotated[
        int, _meta("ms", "a longer turn is ended by force, so that it cannot grow", ge=1000)
    ] = 60_000
    max_buffer_ms: Annotated[
        int, _meta("ms", "sound that a client without turn detection may leave uncommitted", ge=1000)
    ] = 300_000
    starvation_ms: Annotated[
        int, _meta("ms of wall time", "no sound at all for this long while somebody speaks ends the turn", ge=100)
    ] = 1000
    max_lead_ms: Annotated[
        int,
        _meta("ms", "sound sent ahead of its playback; bridges network stalls, bounds what a barge-in wastes", ge=100),
    ] = 4000
    delta_ms: Annotated[int, _meta("ms", "longest piece of sound in one event: what one late send can leak", ge=10)] = (
        200
    )
    hold_ms: Annotated[
        int, _meta("ms of wall time", "how long an answer prepared for a committed turn waits to be asked for", ge=0)
    ] = 10_000
    max_duration_s: Annotated[int, _meta("s of wall time", "longest session", ge=1)] = 3600

    def initial_session(self, model: str, voice: str) -> Session:
        """The settings with which a session begins."""
        detection = ServerVad(
            threshold=self.threshold,
            prefix_padding_ms=self.prefix_padding_ms,
            silence_duration_ms=self.silence_duration_ms,
        )
        audio = Audio(input=AudioInput(turn_detection=detection), output=AudioOutput(voice=voice))
        return Session(model=model, instructions=self.instructions, audio=audio)


def described(options: SessionOptions) -> dict[str, dict[str, Any]]:
    """Each option's value in force, its unit and its reason."""
    table: dict[str, dict[str, Any]] = {}
    for field in msgspec.structs.fields(SessionOptions):
        meta: Meta = field.type.__metadata__[0]
        unit = (meta.extra or {})["unit"]
        table[field.name] = {"value": getattr(options, field.name), "unit": unit, "reason": meta.description}
    return table
