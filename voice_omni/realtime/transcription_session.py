"""The session object of a transcription session: the part of the settings that there is when nobody answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

import msgspec

from voice_omni.realtime.errors import unknown_parameter
from voice_omni.realtime.settings import (
    CONTRACT_RATES,
    AudioInput,
    Include,
    Session,
    Transcription,
    check_rate,
    convert,
    merged,
)

_ABOUT_ANSWERS: Final = ("create_response", "interrupt_response", "idle_timeout_ms")
"""What turn detection says about answers, which there are none of."""


class _Audio(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    input: AudioInput = AudioInput()


class _TranscriptionSession(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: Literal["transcription"] = "transcription"
    include: Include | None = None  # asked for in vain: see Session
    audio: _Audio = _Audio()


def transcribing(session: Session) -> Session:
    """A transcription session that begins with what ``session`` says about the sound that comes in."""
    given = session.audio.input
    given = msgspec.structs.replace(given, transcription=given.transcription or Transcription())
    return _with(session, _TranscriptionSession(audio=_Audio(input=given)))


def shown(session: Session) -> dict[str, Any]:
    """The settings of a transcription session, as JSON."""
    audio = _Audio(input=session.audio.input)
    result: dict[str, Any] = msgspec.to_builtins(_TranscriptionSession(audio=audio))
    detection = result["audio"]["input"]["turn_detection"] or {}
    for name in _ABOUT_ANSWERS:
        detection.pop(name, None)
    return result


def updated_transcription(
    session: Session, patch: Mapping[str, Any], rates: Collection[int] = CONTRACT_RATES
) -> Session:
    """As :func:`voice_omni.realtime.settings.updated`, for a transcription session."""
    raw = merged(shown(session), patch)
    view = convert(raw, _TranscriptionSession)
    check_rate(view.audio.input.format, rates, "session.audio.input.format")
    for name in _ABOUT_ANSWERS:
        if name in (raw["audio"]["input"]["turn_detection"] or {}):
            raise unknown_parameter(f"session.audio.input.turn_detection.{name}")
    return _with(session, view)


def _with(session: Session, view: _TranscriptionSession) -> Session:
    given = view.audio.input
    if given.turn_detection is not None:
        silent = msgspec.structs.replace(given.turn_detection, create_response=False, interrupt_response=False)
        given = msgspec.structs.replace(given, turn_detection=silent)
    audio = msgspec.structs.replace(session.audio, input=given)
    return msgspec.structs.replace(session, type="transcription", audio=audio)
