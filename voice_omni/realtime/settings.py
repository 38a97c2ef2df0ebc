"""The session object (GA dialect): its fields, their limits, and the deep merge of ``session.update``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from voice_omni.realtime.errors import ProtocolError, from_validation


class _Strict(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings in which a misspelt key is an error, not silence."""


class Pcm(_Strict, frozen=True, tag="audio/pcm", tag_field="type"):
    """16-bit little-endian, mono."""

    rate: Literal[24000] = 24000


class Pcmu(_Strict, frozen=True, tag="audio/pcmu", tag_field="type"):
    """G.711 mu-law at 8 kHz."""


class Pcma(_Strict, frozen=True, tag="audio/pcma", tag_field="type"):
    """G.711 A-law at 8 kHz."""


AudioFormat = Pcm | Pcmu | Pcma


class ServerVad(_Strict, frozen=True, tag="server_vad", tag_field="type"):
    """Turns are taken by voice activity. Durations are milliseconds of audio time."""

    threshold: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.5
    prefix_padding_ms: Annotated[int, msgspec.Meta(ge=0, le=5000)] = 300
    silence_duration_ms: Annotated[int, msgspec.Meta(ge=0, le=10000)] = 500
    idle_timeout_ms: None = None
    create_response: bool = True
    interrupt_response: bool = True


class Transcription(_Strict, frozen=True):
    """Asks for events with the transcript of what the person said."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


class NoiseReduction(_Strict, frozen=True):
    """Where the microphone is. Advisory: voice activity and recognition here are made for both."""

    type: Literal["near_field", "far_field"]


class AudioInput(_Strict, frozen=True):
    format: AudioFormat = Pcm()
    transcription: Transcription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: ServerVad | None = ServerVad()


Speed = Annotated[float, msgspec.Meta(ge=0.25, le=1.5)]


class CustomVoice(_Strict, frozen=True):
    id: str


class AudioOutput(_Strict, frozen=True):
    format: AudioFormat = Pcm()
    voice: str | CustomVoice = "default"
    speed: Speed = 1.0


class Audio(_Strict, frozen=True):
    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


Modalities = Annotated[tuple[Literal["audio", "text"], ...], msgspec.Meta(min_length=1, max_length=1)]
TokenLimit = Annotated[int, msgspec.Meta(ge=1, le=4096)] | Literal["inf"]
NoTools = Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=0)]


class Session(_Strict, frozen=True):
    """What a client can set about a conversation. Immutable: an update makes a new one or fails as a whole."""

    type: Literal["realtime"] = "realtime"
    model: str = ""
    output_modalities: Modalities = ("audio",)
    instructions: str = ""
    tools: NoTools = ()
    tool_choice: Literal["auto", "none"] = "auto"
    max_output_tokens: TokenLimit = "inf"
    tracing: Literal["auto"] | dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] = "auto"
    prompt: None = None
    include: tuple[str, ...] | None = None
    audio: Audio = Audio()

    @property
    def voice(self) -> str:
        voice = self.audio.output.voice
        return voice if isinstance(voice, str) else voice.id


_BASES: Mapping[str, Mapping[str, Any]] = {"turn_detection": {"type": "server_vad"}}
"""What a partial object is merged over when the setting is off: its default kind."""


def _merge(current: Any, patch: Any, key: str) -> Any:
    if not isinstance(patch, dict):
        return patch
    base = current if isinstance(current, dict) else dict(_BASES.get(key, {}))
    if "type" in patch and patch["type"] != base.get("type"):
        return patch  # another kind of object: the old kind's fields mean nothing in it
    return {**base, **{name: _merge(base.get(name), value, name) for name, value in patch.items()}}


def updated(session: Session, patch: Mapping[str, Any]) -> Session:
    """``session`` with the keys that are present in ``patch`` changed, at any depth.

    ``model`` is fixed for a session: clients repeat the name that they connected with, and it changes nothing.
    Raises :class:`ProtocolError` (``unknown_parameter``, ``invalid_value``), with the parameter's path.
    """
    current: dict[str, Any] = msgspec.to_builtins(session)
    merged = _merge(current, {name: value for name, value in patch.items() if name != "model"}, "session")
    try:
        result = msgspec.convert(merged, Session)
    except msgspec.ValidationError as error:
        raise from_validation(error, "session") from None
    if not isinstance(patch.get("model", ""), str):
        raise ProtocolError("invalid_value", "Invalid value for 'session.model': expected a string.", "session.model")
    return result
