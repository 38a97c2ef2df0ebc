"""The contract's ways of taking turns: what clients may set, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.protocol import Script, kinds
from voice_omni.client.interface import Message
from voice_omni.realtime import commands
from voice_omni.realtime.core import Facts, RealtimeCore
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.settings import SemanticVad, ServerVad, Session, updated


def _turns(patch: dict[str, Any] | None) -> dict[str, Any]:
    return {"audio": {"input": {"turn_detection": patch}}}


def test_semantic_vad_waits_as_eagerly_as_asked() -> None:
    semantic = updated(Session(), _turns({"type": "semantic_vad", "eagerness": "low"}))
    assert semantic.audio.input.turn_detection == SemanticVad(eagerness="low")
    quieter = updated(semantic, _turns({"interrupt_response": False}))
    assert quieter.audio.input.turn_detection == SemanticVad(eagerness="low", interrupt_response=False)
    back = updated(quieter, _turns({"type": "server_vad"}))
    assert back.audio.input.turn_detection == ServerVad()


@pytest.mark.parametrize(
    ("patch", "code", "name"),
    [
        ({"type": "semantic_vad", "eagerness": "very"}, "invalid_value", "eagerness"),
        ({"type": "semantic_vad", "threshold": 0.5}, "unknown_parameter", "threshold"),
        ({"type": "semantic_vad", "idle_timeout_ms": 6000}, "unknown_parameter", "idle_timeout_ms"),
        ({"idle_timeout_ms": 4999}, "invalid_value", "idle_timeout_ms"),
        ({"idle_timeout_ms": 30001}, "invalid_value", "idle_timeout_ms"),
        ({"eagerness": "low"}, "unknown_parameter", "eagerness"),
    ],
)
def test_what_does_not_belong_to_a_kind_is_refused(patch: dict[str, Any], code: str, name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        updated(Session(), _turns(patch))
    assert (caught.value.code, caught.value.param) == (code, f"session.audio.input.turn_detection.{name}")


def test_semantic_vad_is_shown_as_it_was_set() -> None:
    [event] = Script().send("session.update", session=_turns({"type": "semantic_vad"}))
    assert event["session"]["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "auto",
        "create_response": True,
        "interrupt_response": True,
    }


def test_a_server_without_the_model_refuses_semantic_vad_and_nothing_changes() -> None:
    facts = Facts(("default",), 24000, expires_at=0, semantic_vad=False)
    core = RealtimeCore(Session(), facts, lambda prefix: prefix)
    message = (
        '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}}'
    )
    [event] = core.receive(message)
    assert isinstance(event, dict)
    assert event["error"]["code"] == "invalid_value"
    assert event["error"]["param"] == "session.audio.input.turn_detection.type"
    assert core.session == Session()


def test_an_idle_timeout_commits_the_silence_and_begins_a_response() -> None:
    script = Script()
    events = script.take(script.core.idle_timeout(1000, 7000, "..."))
    assert kinds(events) == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert (events[0]["audio_start_ms"], events[0]["audio_end_ms"]) == (1000, 7000)
    assert events[0]["item_id"] == events[1]["item_id"] == events[2]["item"]["id"]
    [start] = script.commands
    assert isinstance(start, commands.StartReply)
    assert start.messages == (Message("user", "..."),)
    assert script.core.conversation.messages() == ()  # nobody said that


@pytest.mark.parametrize(
    ("given", "held"), [({}, True), ({"interruptible": True}, True), ({"interruptible": False}, False)]
)
def test_a_response_can_be_protected(given: dict[str, Any], held: bool) -> None:
    script = Script()
    script.send("response.create", response=given)
    active = script.core.responses.active
    assert active is not None
    assert active.settings.interruptible is held
