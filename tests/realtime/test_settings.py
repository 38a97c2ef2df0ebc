"""``session.update``: a deep merge of the keys that are present, all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.settings import (
    Audio,
    AudioInput,
    NoiseReduction,
    Pcma,
    Pcmu,
    ServerVad,
    Session,
    Transcription,
    updated,
)


def _input(patch: dict[str, Any]) -> dict[str, Any]:
    return {"audio": {"input": patch}}


def test_one_threshold_changes_nothing_else_and_keeps_turn_detection_on() -> None:
    before = Session(audio=Audio(input=AudioInput(turn_detection=ServerVad(silence_duration_ms=700))))
    after = updated(before, _input({"turn_detection": {"threshold": 0.8}}))
    assert after.audio.input.turn_detection == ServerVad(threshold=0.8, silence_duration_ms=700)
    assert after.audio.output == before.audio.output


def test_an_update_with_only_transcription_leaves_turn_detection_alone() -> None:
    after = updated(Session(), _input({"transcription": {"model": "whisper-1"}}))
    assert after.audio.input.turn_detection == ServerVad()
    assert after.audio.input.transcription == Transcription(model="whisper-1")
    assert updated(after, _input({"transcription": {"language": "en"}})).audio.input.transcription == Transcription(
        model="whisper-1", language="en"
    )


def test_null_turns_turn_detection_off_and_a_partial_object_turns_it_on_again() -> None:
    off = updated(Session(), _input({"turn_detection": None}))
    assert off.audio.input.turn_detection is None
    on = updated(off, _input({"turn_detection": {"threshold": 0.7}}))
    assert on.audio.input.turn_detection == ServerVad(threshold=0.7)


def test_an_empty_string_clears_the_instructions() -> None:
    assert updated(updated(Session(), {"instructions": "Be brief."}), {"instructions": ""}).instructions == ""


@pytest.mark.parametrize(("name", "kind"), [("audio/pcmu", Pcmu), ("audio/pcma", Pcma)])
def test_another_kind_of_format_replaces_the_whole_object(name: str, kind: type) -> None:
    assert isinstance(updated(Session(), _input({"format": {"type": name}})).audio.input.format, kind)


def test_a_model_name_is_accepted_and_changes_nothing() -> None:
    session = Session(model="ours")
    assert updated(session, {"type": "realtime", "model": "gpt-realtime"}) == session


def test_noise_reduction_is_kept() -> None:
    after = updated(Session(), _input({"noise_reduction": {"type": "near_field"}}))
    assert after.audio.input.noise_reduction == NoiseReduction(type="near_field")


@pytest.mark.parametrize(
    ("patch", "code", "param"),
    [
        ({"voice": "x"}, "unknown_parameter", "session.voice"),
        (
            _input({"turn_detection": {"treshold": 1}}),
            "unknown_parameter",
            "session.audio.input.turn_detection.treshold",
        ),
        (_input({"turn_detection": {"threshold": 2}}), "invalid_value", "session.audio.input.turn_detection.threshold"),
        (_input({"turn_detection": {"type": "telepathy"}}), "invalid_value", "session.audio.input.turn_detection.type"),
        (_input({"format": {"type": "audio/pcm", "rate": 16000}}), "invalid_value", "session.audio.input.format.rate"),
        (_input({"format": "pcm16"}), "invalid_value", "session.audio.input.format"),
        ({"audio": None}, "invalid_value", "session.audio"),
        ({"instructions": None}, "invalid_value", "session.instructions"),
        ({"output_modalities": ["audio", "text"]}, "invalid_value", "session.output_modalities"),
        ({"output_modalities": []}, "invalid_value", "session.output_modalities"),
        ({"max_output_tokens": 0}, "invalid_value", "session.max_output_tokens"),
        ({"type": "transcription"}, "invalid_value", "session.type"),
        ({"model": 5}, "invalid_value", "session.model"),
        ({"audio": {"output": {"speed": 3}}}, "invalid_value", "session.audio.output.speed"),
    ],
)
def test_faults_are_named_and_change_nothing(patch: dict[str, Any], code: str, param: str) -> None:
    session = Session()
    with pytest.raises(ProtocolError) as caught:
        updated(session, {"instructions": "changed", **patch})
    assert (caught.value.code, caught.value.param) == (code, param)
    assert session == Session()
