"""The stock client's own type definitions, walked: all that it can send is understood, all that it is sent it knows."""

from __future__ import annotations

import base64
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, Union

import pytest
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from pydantic import BaseModel

from tests.support.protocol import MANUAL, Script
from voice_omni.client.interface import ToolCallDelta
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.settings import Audio, AudioInput, Session, Transcription
from voice_omni.server.sessions import OPENAI_VOICES

# What clients can send

SAMPLES: dict[type, Any] = {str: "x", int: 5000, float: 1.0, bool: True, object: {}}
VALUES: dict[str, Any] = {
    "audio": base64.b64encode(bytes(480)).decode(),
    "audio_end_ms": 100,
    "call_id": "call_there",
    "content_index": 0,
    "image_url": "data:image/png;base64,iVBORw0KGgo=",
    "item_id": "item_2",
    "max_output_tokens": 100,
    "previous_item_id": "item_2",
    "response_id": "resp_2",
    "retention_ratio": 0.5,
    "threshold": 0.5,
}
"""For fields of these names, where any value of their type would not do."""

VOICES = {"default", "x", *OPENAI_VOICES}
CALL = {"type": "function_call", "call_id": "call_there", "name": "f", "arguments": "{}"}

REFUSED: dict[str, tuple[str, str]] = {
    "type=mcp": ("invalid_value", "servers of tools are not called from here"),
    "type=mcp_approval_request": ("invalid_value", "as there are none"),
    "type=mcp_approval_response": ("invalid_value", "as there are none"),
    "type=mcp_call": ("invalid_value", "as there are none"),
    "type=mcp_list_tools": ("invalid_value", "as there are none"),
    "type=transcription": ("invalid_value", "a conversation does not become one; it is connected as one"),
    "prompt": ("invalid_value", "no prompts are stored here"),
    "conversation=x": ("invalid_value", "there are 'auto' and 'none'"),
    "type=output_audio_buffer.clear": ("invalid_event", "the client plays"),
    "tool_choice=function": ("invalid_value", "no such tool was declared"),
    "output_modalities": ("invalid_value", "one of them"),
}
"""What the stock client can express and this server answers with an error, and why."""


def members(annotation: Any) -> list[Any]:
    """The types of a union, without None; any other type alone."""
    if hasattr(annotation, "__metadata__"):
        return members(annotation.__origin__)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return [each for part in typing.get_args(annotation) for each in members(part) if each is not type(None)]
    return [annotation]


def samples(annotation: Any, name: str) -> Iterator[Any]:
    """Values of a field, each in the smallest form in which some part of its type is used."""
    for kind in members(annotation):
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is Literal:
            yield from arguments
        elif name in VALUES and not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            yield VALUES[name]
        elif origin is list:
            yield from ([value] for value in samples(arguments[0], name))
        elif origin is dict:
            yield {"key": next(samples(arguments[1], name))}
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from objects(kind)
        else:
            yield SAMPLES[kind]


def objects(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """With the required fields alone, and then with each of the others beside them."""
    fields = {name: field for name, field in model.model_fields.items() if name != "event_id"}
    least = {name: next(samples(field.annotation, name)) for name, field in fields.items() if field.is_required()}
    if "type" in fields and "type" not in least:
        least["type"] = next(samples(fields["type"].annotation, "type"))
    yield least
    for name, field in fields.items():
        for value in samples(field.annotation, name):
            yield {**least, name: value}


def useful(event: dict[str, Any]) -> dict[str, Any]:
    """Types leave optional what no event of its kind can do without."""
    response = event.get("response", {})
    for item in (event.get("item", {}), *response.get("input", ())):
        for part in item.get("content", ()):
            kinds = {"assistant": "output_audio" if {"audio", "transcript"} & part.keys() else "output_text"}
            kind = part.setdefault("type", kinds.get(item["role"], "input_text"))
            needed = {"input_image": "image_url", "input_audio": "transcript", "output_audio": "transcript"}
            name = needed.get(kind, "text")
            part.setdefault(name, VALUES.get(name, "x"))
    if any(item["type"] == "function_call_output" for item in response.get("input", ())):
        response["input"].insert(0, CALL)
    for holder in (event.get("session", {}), response):
        for tool in holder.get("tools", ()):
            tool.setdefault("name", "f")
    return event


def cases() -> Iterator[dict[str, Any]]:
    for model in members(RealtimeClientEvent):
        for event in objects(model):
            yield useful(event)


def reason_to_refuse(value: Any) -> tuple[str, str] | None:
    """The first entry of the table that some part of an event falls under."""
    found: tuple[str, str] | None = None
    if isinstance(value, list):
        found = next(filter(None, map(reason_to_refuse, value)), None)
    for name, each in value.items() if isinstance(value, dict) else ():
        match name, each:
            case "prompt", dict():
                found = found or REFUSED["prompt"]
            case "output_modalities", [_, _, *_]:
                found = found or REFUSED["output_modalities"]
            case "tool_choice", {"type": "function"}:
                found = found or REFUSED["tool_choice=function"]
            case _, str():
                found = found or REFUSED.get(f"{name}={each}")
        found = found or reason_to_refuse(each)
    return found


def ready() -> Script:
    """A session in which whatever an event may refer to is there."""
    script = Script(MANUAL, images=True, voices=VOICES)
    script.sound(200)
    script.send("conversation.item.create", item=CALL)
    script.complete(script.answer("Hello."))
    spoken = script.core.conversation.last_id or ""
    assert spoken == VALUES["item_id"]
    return script


@pytest.mark.parametrize("event", list(cases()), ids=lambda event: event["type"])
def test_everything_that_the_stock_client_can_send_is_understood(event: dict[str, Any]) -> None:
    script = Script(voices=VOICES) if event["type"] == "session.update" else ready()
    if event["type"] == "response.cancel":
        script.answer("Hello ")
        assert script.response_id == VALUES["response_id"]
    refusal = reason_to_refuse(event)
    errors = [each["error"] for each in script.send(event.pop("type"), **event) if each["type"] == "error"]
    assert [error["code"] for error in errors] == ([refusal[0]] if refusal else []), errors


# What clients are sent

NEVER_SENT = {
    "conversation.item.created": "of the beta dialect",
    "conversation.item.input_audio_transcription.segment": "nobody tells speakers apart here",
    "input_audio_buffer.dtmf_event_received": "of phone calls",
    "rate_limits.updated": "optional, and there are none",
    "mcp_list_tools.in_progress": "no servers of tools are called",
    "mcp_list_tools.completed": "no servers of tools are called",
    "mcp_list_tools.failed": "no servers of tools are called",
    "response.mcp_call_arguments.delta": "no servers of tools are called",
    "response.mcp_call_arguments.done": "no servers of tools are called",
    "response.mcp_call.in_progress": "no servers of tools are called",
    "response.mcp_call.completed": "no servers of tools are called",
    "response.mcp_call.failed": "no servers of tools are called",
}


def test_every_event_that_the_stock_client_knows_is_sent_or_has_a_reason_not_to_be() -> None:
    known = {
        name for model in members(RealtimeServerEvent) for name in samples(model.model_fields["type"].annotation, "")
    }
    assert tour() == known - NEVER_SENT.keys()


def tour() -> set[str]:
    """The types of all that a core sends, each checked against the stock client's types as it is sent."""
    heard = Session(audio=Audio(input=AudioInput(transcription=Transcription())))
    script = Script(heard, owns_playback=True)
    core = script.core
    script.send("session.update", session={"instructions": "Be brief."})
    script.take([*core.speech_started(0), *core.speech_stopped(900), *core.drop_turn()])
    script.take([*core.speech_started(900), *core.speech_stopped(1800), *core.commit()])
    user = core.conversation.last_id or ""
    script.take(core.transcribed(user, "Hello.", 0.9))
    script.take(core.transcription_failed(user, ErrorInfo("stage_died", "It died.")))
    response_id = script.answer("One ", "two.")
    script.take(core.playback("started", response_id))
    script.complete(response_id)
    script.take(core.playback("stopped", response_id))
    spoken = core.conversation.last_id or ""
    script.take([*core.playback("cleared", response_id), *core.heard(spoken, 500.0)])
    script.send("conversation.item.retrieve", item_id=spoken)
    script.send("conversation.item.delete", item_id=spoken)
    script.send("response.create", response={"output_modalities": ["text"]})
    script.take(core.responses.say(script.response_id, "Written."))
    script.take(core.responses.call(script.response_id, ToolCallDelta(0, "f", "{}", final=True)))
    script.complete(script.response_id)
    script.take(core.idle_timeout(0, 5000, "..."))
    script.send("response.cancel")
    script.send_error("response.cancel")
    return {event["type"] for event in script.events}
