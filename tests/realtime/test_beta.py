"""The beta dialect: what a client of it sends is understood, and what it is sent has only its names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import openai_contract
from tests.support.protocol import MANUAL, Script, kinds
from voice_omni.client.interface import Message, NamedTool, ToolCallDelta
from voice_omni.realtime.dialect import Dialect
from voice_omni.realtime.settings import Pcma, Pcmu, SemanticVad, Session
from voice_omni.realtime.tools import FunctionChoice
from voice_omni.realtime.transcription_session import transcribing

WEATHER = {"type": "function", "name": "get_weather", "description": "The weather", "parameters": {}}


class BetaScript(Script):
    """A core behind the dialect. ``asked``: whether the client named it when it connected."""

    def __init__(self, session: Session | None = None, *, asked: bool = True) -> None:
        self.dialect = Dialect(beta=asked)
        super().__init__(session)

    def check(self, event: dict[str, Any]) -> None:
        """What counts is what the client is shown; see below."""

    def take(self, outputs: Any) -> list[dict[str, Any]]:
        events = super().take(outputs)
        shown = [each for event in events for each in self.dialect.outgoing(event)]
        self.events[len(self.events) - len(events) :] = shown
        for event in shown:
            openai_contract.check(event, beta=self.dialect.is_beta)
        return shown

    def send(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return self.receive(json.dumps({"type": kind, **fields}))

    def receive(self, message: str) -> list[dict[str, Any]]:
        understood = self.dialect.incoming(message)
        return self.take(self.core.receive(understood, beta=self.dialect.is_beta))


# Which dialect it is


@pytest.mark.parametrize(
    ("session", "beta"),
    [
        ({"input_audio_format": "pcm16"}, True),
        ({"modalities": ["text"], "instructions": "x"}, True),
        ({"turn_detection": None}, True),
        ({"type": "realtime", "instructions": "x"}, False),
        ({"audio": {"output": {"voice": "other"}}}, False),
        ({"instructions": "x"}, False),
        ({}, False),
    ],
)
def test_the_shape_of_the_first_update_decides(session: dict[str, Any], beta: bool) -> None:
    script = BetaScript(asked=False)
    assert "audio" in script.events[0]["session"]
    [event] = script.send("session.update", session=session)
    assert event["type"] == "session.updated"
    assert script.dialect.is_beta is beta
    assert ("input_audio_format" in event["session"]) is beta
    assert ("audio" in event["session"]) is not beta


def test_it_cannot_be_changed_afterwards() -> None:
    script = BetaScript(asked=False)
    script.send("session.update", session={"instructions": "x"})
    error = script.send_error("session.update", session={"input_audio_format": "pcm16"})
    assert (error["code"], error["param"]) == ("unknown_parameter", "session.input_audio_format")
    assert not script.dialect.is_beta


def test_other_events_do_not_decide() -> None:
    script = BetaScript(asked=False)
    script.send("input_audio_buffer.append", audio="AAAA")
    script.send("session.update", session={"voice": "other"})
    assert script.dialect.is_beta


@pytest.mark.parametrize("message", ["nonsense", "[]", '{"type": 3}', '{"type": "session.update"}', b"\x00"])
def test_faulty_messages_are_left_to_the_core(message: str | bytes) -> None:
    for asked in (False, True):
        script = BetaScript(asked=asked)
        [event] = script.receive(message)
        assert event["type"] == "error"


# The session


def test_the_session_is_flat() -> None:
    script = BetaScript()
    session = script.events[0]["session"]
    assert session == {
        "object": "realtime.session",
        "id": "sess_1",
        "model": "",
        "expires_at": 1000,
        "modalities": ["audio", "text"],
        "instructions": "",
        "voice": "default",
        "speed": 1.0,
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": None,
        "input_audio_noise_reduction": None,
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
            "create_response": True,
            "interrupt_response": True,
        },
        "tools": [],
        "tool_choice": "auto",
        "temperature": 0.8,
        "max_response_output_tokens": "inf",
        "tracing": None,
    }


def test_every_field_of_an_update_arrives() -> None:
    script = BetaScript()
    patch = {
        "modalities": ["text"],
        "instructions": "Be brief.",
        "voice": "other",
        "speed": 1.2,
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "g711_alaw",
        "input_audio_transcription": {"model": "whisper-1", "language": "en", "prompt": "names"},
        "input_audio_noise_reduction": {"type": "far_field"},
        "turn_detection": {"type": "semantic_vad", "eagerness": "low"},
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "temperature": 0.7,
        "max_response_output_tokens": 100,
    }
    message = script.dialect.incoming(json.dumps({"type": "session.update", "session": patch}))
    script.core.receive(message, beta=True)  # the stock type knows no choice of one function in a session
    assert script.core.session.tool_choice == FunctionChoice(name="get_weather")
    [event] = script.send("session.update", session={"tool_choice": "auto"})
    shown = event["session"]
    for name, value in patch.items():
        if name not in ("tool_choice", "turn_detection"):
            assert shown[name] == value
    session = script.core.session
    assert session.output_modalities == ("text",)
    assert isinstance(session.audio.input.format, Pcmu)
    assert isinstance(session.audio.output.format, Pcma)
    assert isinstance(session.audio.input.turn_detection, SemanticVad)
    assert (session.voice, session.audio.output.speed, session.max_output_tokens) == ("other", 1.2, 100)


def test_a_partial_update_merges() -> None:
    script = BetaScript()
    [event] = script.send(
        "session.update", session={"turn_detection": {"threshold": 0.8}, "modalities": ["text", "audio"]}
    )
    detection = event["session"]["turn_detection"]
    assert (detection["type"], detection["threshold"], detection["silence_duration_ms"]) == ("server_vad", 0.8, 500)
    assert script.core.session.output_modalities == ("audio",)
    [event] = script.send("session.update", session={"turn_detection": None})
    assert event["session"]["turn_detection"] is None


@pytest.mark.parametrize(
    ("patch", "code", "param"),
    [
        ({"input_audio_format": "mp3"}, "invalid_value", "session.input_audio_format"),
        ({"output_audio_format": 3}, "invalid_value", "session.output_audio_format"),
        ({"voice": "nobody"}, "invalid_value", "session.voice"),
        ({"turn_detection": {"threshold": 7}}, "invalid_value", "session.turn_detection.threshold"),
        ({"turn_detection": {"treshold": 1}}, "unknown_parameter", "session.turn_detection.treshold"),
        ({"modalities": ["smell"]}, "invalid_value", "session.modalities[0]"),
        ({"max_response_output_tokens": 0}, "invalid_value", "session.max_response_output_tokens"),
        ({"colour": "red"}, "unknown_parameter", "session.colour"),
    ],
)
def test_faults_are_named_as_the_client_wrote_them(patch: dict[str, Any], code: str, param: str) -> None:
    script = BetaScript()
    error = script.send_error("session.update", session={"instructions": "x", **patch}, event_id="e")
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "e")
    assert script.core.session == Session()


# A conversation


def test_a_spoken_answer() -> None:
    script = BetaScript(MANUAL)
    script.sound(100)
    assert kinds(script.send("input_audio_buffer.commit")) == [
        "input_audio_buffer.committed",
        "conversation.item.created",
    ]
    before = len(script.events)
    script.complete(script.answer("Hello."))
    events = script.events[before:]
    assert kinds(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.created",
        "response.content_part.added",
        "response.audio_transcript.delta",
        "response.audio.delta",
        "response.audio.done",
        "response.audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    response = events[-1]["response"]
    assert response["modalities"] == ["audio", "text"]
    assert (response["voice"], response["output_audio_format"]) == ("default", "pcm16")
    assert response["output"][0]["content"] == [{"type": "audio", "transcript": "Hello."}]
    assert events[-2]["item"]["content"] == [{"type": "audio", "transcript": "Hello."}]


def test_a_written_answer_with_options_of_its_own() -> None:
    script = BetaScript()
    options = {
        "modalities": ["text"],
        "max_response_output_tokens": 50,
        "temperature": 0.9,
        "output_audio_format": "g711_ulaw",
        "voice": "other",
        "metadata": {"a": "b"},
        "input": [{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Before."}]}],
    }
    [created] = script.send("response.create", response=options)
    response_id = script.response_id
    assert created["response"]["modalities"] == ["text"]
    assert (created["response"]["max_output_tokens"], created["response"]["voice"]) == (50, "other")
    assert script.commands[-1].messages == (Message("assistant", "Before."),)  # type: ignore[union-attr]
    script.take(script.core.responses.say(response_id, "Hello."))
    events = script.complete(response_id)
    assert kinds(events) == [
        "response.text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "text", "text": "Hello."}]


def test_the_temperature_takes_effect_and_one_response_may_have_its_own() -> None:
    script = BetaScript()
    assert script.events[0]["session"]["temperature"] == 0.8
    assert script.core.prospect().temperature is None
    [updated] = script.send("session.update", session={"temperature": 1.1})
    assert updated["session"]["temperature"] == 1.1
    assert script.core.prospect().temperature == 1.1
    [created] = script.send("response.create", response={"temperature": 0.6})
    response = script.core.responses.get(script.response_id)
    assert response is not None
    assert created["response"]["temperature"] == response.settings.temperature == 0.6


def test_a_refused_update_does_not_change_the_temperature() -> None:
    script = BetaScript()
    assert script.send_error("session.update", session={"temperature": 1.1, "voice": "nobody"})["param"]
    error = script.send_error("session.update", session={"temperature": 1.3})
    assert (error["code"], error["param"]) == ("invalid_value", "session.temperature")
    [updated] = script.send("session.update", session={})
    assert updated["session"]["temperature"] == 0.8
    assert script.core.prospect().temperature is None


@pytest.mark.parametrize(
    ("event", "param"),
    [
        ({"type": "session.update", "session": {"type": "realtime", "temperature": 0.8}}, "session.temperature"),
        ({"type": "response.create", "response": {"temperature": 0.8}}, "response.temperature"),
    ],
)
def test_the_other_dialect_has_no_temperature(event: dict[str, Any], param: str) -> None:
    error = Script().send_error(event.pop("type"), **event)
    assert (error["code"], error["param"]) == ("unknown_parameter", param)


def test_items_of_the_dialect() -> None:
    script = BetaScript()
    item = {"type": "message", "role": "assistant", "id": "a", "content": [{"type": "text", "text": "Hello."}]}
    [created] = script.send("conversation.item.create", item=item)
    assert created["type"] == "conversation.item.created"
    assert created["item"]["content"] == [{"type": "text", "text": "Hello."}]
    [retrieved] = script.send("conversation.item.retrieve", item_id="a")
    assert retrieved["item"]["content"] == [{"type": "text", "text": "Hello."}]
    assert script.core.conversation.messages() == (Message("assistant", "Hello."),)


def test_a_function_call() -> None:
    script = BetaScript()
    choice = {"type": "function", "function": {"name": "get_weather"}}
    script.send("response.create", response={"tools": [WEATHER], "tool_choice": choice})
    response = script.core.responses.get(script.response_id)
    assert response is not None
    assert response.settings.tool_choice == NamedTool("get_weather")
    events = script.take(script.core.responses.call(script.response_id, ToolCallDelta(0, "get_weather", "{}", True)))
    assert kinds(events) == [
        "response.output_item.added",
        "conversation.item.created",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]


def test_truncation_and_cancellation_have_the_same_names() -> None:
    script = BetaScript()
    script.answer("One ", "two.")
    item_id = script.core.conversation.last_id
    assert kinds(script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=500)) == [
        "conversation.item.truncated"
    ]
    assert script.send("response.cancel")[-1]["response"]["status"] == "cancelled"


def test_a_transcription_session() -> None:
    core, dialect = Script(transcribing(Session())).core, Dialect(beta=True)

    def answers(outputs: list[Any]) -> list[dict[str, Any]]:
        return [event for output in outputs if isinstance(output, dict) for event in dialect.outgoing(output)]

    assert answers(core.open())[0]["type"] == "transcription_session.created"
    patch = {"input_audio_format": "g711_ulaw", "input_audio_transcription": {"model": "x"}, "turn_detection": None}
    message = json.dumps({"type": "transcription_session.update", "session": patch})
    [event] = answers(core.receive(dialect.incoming(message), beta=dialect.is_beta))
    assert event["type"] == "transcription_session.updated"
    assert event["session"]["input_audio_format"] == "g711_ulaw"
    assert event["session"]["turn_detection"] is None
