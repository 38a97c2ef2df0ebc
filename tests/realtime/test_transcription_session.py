"""Sessions in which what is said is written down and nobody answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.protocol import Script, kinds
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.settings import SemanticVad, Session
from voice_omni.realtime.transcription_session import transcribing


def script() -> Script:
    return Script(transcribing(Session(instructions="Be brief.")))


def _input(patch: dict[str, Any]) -> dict[str, Any]:
    return {"audio": {"input": patch}}


def test_it_is_shown_without_what_concerns_answers() -> None:
    session = script().events[0]["session"]
    assert session == {
        "type": "transcription",
        "object": "realtime.transcription_session",
        "id": "sess_1",
        "expires_at": 1000,
        "include": None,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": None, "language": None, "prompt": None},
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                },
            }
        },
    }


def test_an_update_merges_and_echoes_the_whole() -> None:
    each = script()
    patch = {"type": "transcription", **_input({"turn_detection": {"threshold": 0.7}, "transcription": {"model": "x"}})}
    [event] = each.send("session.update", session=patch)
    shown = event["session"]["audio"]["input"]
    assert (shown["turn_detection"]["threshold"], shown["turn_detection"]["silence_duration_ms"]) == (0.7, 500)
    assert shown["transcription"]["model"] == "x"
    detection = each.core.session.audio.input.turn_detection
    assert detection is not None
    assert (detection.create_response, detection.interrupt_response) == (False, False)


def test_turn_detection_may_be_semantic_or_off() -> None:
    each = script()
    [event] = each.send("session.update", session=_input({"turn_detection": {"type": "semantic_vad"}}))
    assert event["session"]["audio"]["input"]["turn_detection"] == {"type": "semantic_vad", "eagerness": "auto"}
    assert isinstance(each.core.session.audio.input.turn_detection, SemanticVad)
    [event] = each.send("session.update", session=_input({"turn_detection": None}))
    assert event["session"]["audio"]["input"]["turn_detection"] is None


@pytest.mark.parametrize(
    ("patch", "code", "param"),
    [
        ({"instructions": "x"}, "unknown_parameter", "session.instructions"),
        ({"audio": {"output": {"voice": "x"}}}, "unknown_parameter", "session.audio.output"),
        (_input({"turn_detection": {"create_response": True}}), "unknown_parameter",
         "session.audio.input.turn_detection.create_response"),
        (_input({"format": {"type": "audio/pcm", "rate": 16000}}), "invalid_value", "session.audio.input.format.rate"),
        ({"type": "realtime"}, "invalid_value", "session.type"),
        ({"include": ["everything"]}, "invalid_value", "session.include[0]"),
    ],
)  # fmt: skip
def test_faults_are_named_and_change_nothing(patch: dict[str, Any], code: str, param: str) -> None:
    each = script()
    before = each.core.session
    error = each.send_error("session.update", session=patch)
    assert (error["code"], error["param"]) == (code, param)
    assert each.core.session == before


def test_a_turn_is_transcribed_and_not_answered() -> None:
    each = script()
    events = each.take([*each.core.speech_started(0), *each.core.speech_stopped(900), *each.core.commit()])
    item_id = events[0]["item_id"]
    events += each.take(each.core.transcribing(item_id, "hello"))
    events += each.take(each.core.transcribing(item_id, "hello there"))
    events += each.take(each.core.transcribed(item_id, "hello there", 0.9))
    assert kinds(events) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        *["conversation.item.input_audio_transcription.delta"] * 2,
        "conversation.item.input_audio_transcription.completed",
    ]
    assert [event["delta"] for event in events[5:7]] == ["hello", " there"]


def test_a_failed_transcription_is_told() -> None:
    each = script()
    each.take([*each.core.speech_started(0), *each.core.commit()])
    item_id = each.core.conversation.last_id or ""
    [event] = each.take(each.core.transcription_failed(item_id, ErrorInfo("stage_died", "it died")))
    assert event["type"] == "conversation.item.input_audio_transcription.failed"
    assert each.core.transcription_failed("gone", ErrorInfo("stage_died", "it died")) == []


def test_there_are_no_responses() -> None:
    each = script()
    error = each.send_error("response.create", event_id="r")
    assert (error["code"], error["event_id"]) == ("invalid_event", "r")
    assert each.send_error("response.cancel")["code"] == "response_cancel_not_active"


def test_a_conversation_does_not_become_one() -> None:
    error = Script().send_error("session.update", session={"type": "transcription"})
    assert (error["code"], error["param"]) == ("invalid_value", "session.type")
