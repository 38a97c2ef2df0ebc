"""Every default of turn-taking and delivery, in one table: value, unit and reason."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from voice_omni.realtime.settings import Audio, AudioInput, AudioOutput, SemanticVad, ServerVad, Session, TurnDetection


def _meta(unit: str, reason: str, *, ge: float | None = None, le: float | None = None) -> Meta:
    return Meta(ge=ge, le=le, description=reason, extra={"unit": unit})


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may set for every session. Clients can change the first seven for theirs."""

    turn_detection: Annotated[
        Literal["server_vad", "semantic_vad"],
        _meta("kind", "what ends a turn where the client does not say: silence alone, or silence and how it sounds"),
    ] = "server_vad"
    eagerness: Annotated[
        Literal["low", "medium", "high", "auto"],
        _meta("kind", "semantic_vad waits 8, 4, 2 or 4 s for people who seem not to have finished"),
    ] = "auto"
    threshold: Annotated[
        float, _meta("probability", "speech begins at this probability of the voice activity model", ge=0, le=1)
    ] = 0.5
    prefix_padding_ms: Annotated[
        int, _meta("ms", "sound before the onset that belongs to the turn: soft first consonants", ge=0, le=5000)
    ] = 300
    silence_duration_ms: Annotated[
        int, _meta("ms", "silence that ends a turn; shorter cuts in on people who think", ge=0, le=10000)
    ] = 500
    idle_timeout_ms: Annotated[
        Annotated[int, Meta(ge=5000, le=30000)] | None,
        _meta("ms", "quiet after an answer has been played that makes the server speak again"),
    ] = None
    instructions: Annotated[str, _meta("text", "system prompt; empty means the pipeline's own")] = ""
    hysteresis: Annotated[
        float, _meta("probability", "speech ends this far below the threshold, so that it does not flicker", ge=0, le=1)
    ] = 0.15
    release_lag_ms: Annotated[
        int,
        _meta("ms", "the voice activity model falls at least so long after the voice; silence counts from then", ge=0),
    ] = 32
    min_speech_ms: Annotated[
        int, _meta("ms", "speech shorter than this starts no turn and interrupts nobody: clicks, coughs", ge=0)
    ] = 96
    min_resumption_ms: Annotated[int, _meta("ms", "speech after a pause shorter than this is a noise in it", ge=0)] = 64
    short_pause_ms: Annotated[
        int, _meta("ms", "silence after which an answer is begun in secret; pauses inside words are shorter", ge=0)
    ] = 128
    semantic_pause_ms: Annotated[
        int, _meta("ms", "silence after which semantic_vad first judges whether the turn is complete", ge=32)
    ] = 384
    semantic_again_ms: Annotated[
        int, _meta("ms", "silence after which it judges again: a pause that grows tells more", ge=32)
    ] = 512
    semantic_threshold: Annotated[
        float, _meta("probability", "a turn is complete at this probability of the judge", ge=0, le=1)
    ] = 0.7
    semantic_timeout_ms: Annotated[
        int, _meta("ms of wall time", "without a judgement by then, silence decides as in server_vad", ge=10)
    ] = 500
    max_utterance_ms: Annotated[
        int, _meta("ms", "a longer turn is ended by force, so that it cannot grow", ge=1000)
    ] = 60_000
    max_buffer_ms: Annotated[
        int, _meta("ms", "sound that a client without turn detection may leave uncommitted", ge=1000)
    ] = 300_000
    starvation_ms: Annotated[
        int, _meta("ms of wall time", "no sound at all for this long while somebody speaks ends the turn", ge=100)
    ] = 1000
    interrupt_min_ms: Annotated[
        int, _meta("ms", "speech over an answer interrupts after this long; 0: at its onset, as clients expect", ge=0)
    ] = 0
    interrupt_min_words: Annotated[
        int, _meta("words", "speech over an answer interrupts once so many words of it are known", ge=0)
    ] = 0
    interrupt_certain_ms: Annotated[
        int, _meta("ms", "speech over an answer interrupts after this long whatever its words", ge=0)
    ] = 1500
    ignore_backchannels: Annotated[
        bool, _meta("flag", '"mm-hm" or "yeah" over an answer is listening, not interrupting')
    ] = False
    resume_ms: Annotated[
        int, _meta("ms of wall time", "an answer that was held for speech without words goes on after this", ge=0)
    ] = 2000
    echo_warm_up_ms: Annotated[
        int, _meta("ms of wall time", "nothing interrupts so early in the first answer: echo cancellation adapts", ge=0)
    ] = 0
    protected_speech: Annotated[
        Literal["discard", "keep"],
        _meta("kind", "what is said over an answer that cannot be interrupted is dropped, or answered after it"),
    ] = "discard"
    echo_similarity: Annotated[
        float,
        _meta("share of words", "a turn of words that were just being spoken to the person is an echo", ge=0, le=1),
    ] = 0.8
    max_idle_responses: Annotated[
        int, _meta("count", "idle timeouts in a row that are answered: nobody may be there any more", ge=0)
    ] = 3
    idle_prompt: Annotated[
        str, _meta("text", "what the model is told at an idle timeout in place of the person's words")
    ] = "..."
    max_lead_ms: Annotated[
        int,
        _meta("ms", "sound sent ahead of its playback; bridges network stalls, bounds what a barge-in wastes", ge=100),
    ] = 4000
    track_lead_ms: Annotated[
        int,
        _meta("ms", "of that, given to a media track (WebRTC) ahead: outlasts busy moments, plays on when held", ge=60),
    ] = 300
    delta_ms: Annotated[int, _meta("ms", "longest piece of sound in one event: what one late send can leak", ge=10)] = (
        200
    )
    hold_ms: Annotated[
        int, _meta("ms of wall time", "how long an answer prepared for a committed turn waits to be asked for", ge=0)
    ] = 10_000
    max_duration_s: Annotated[int, _meta("s of wall time", "longest session", ge=1)] = 3600

    def initial_session(self, model: str, voice: str) -> Session:
        """The settings with which a session begins."""
        detection: TurnDetection = (
            SemanticVad(eagerness=self.eagerness)
            if self.turn_detection == "semantic_vad"
            else ServerVad(
                threshold=self.threshold,
                prefix_padding_ms=self.prefix_padding_ms,
                silence_duration_ms=self.silence_duration_ms,
                idle_timeout_ms=self.idle_timeout_ms,
            )
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
