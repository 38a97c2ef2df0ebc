"""Client events: what may arrive, and what is wrong with what should not."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec

from voice_omni.realtime.errors import ProtocolError, from_validation
from voice_omni.realtime.settings import (
    AudioFormat,
    CustomVoice,
    Modalities,
    Prompt,
    Reasoning,
    Speed,
    Temperature,
    TokenLimit,
)
from voice_omni.realtime.tools import ToolChoice, Tools

EventId = Annotated[str, msgspec.Meta(max_length=512)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
Metadata = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=64)], Annotated[str, msgspec.Meta(max_length=512)]],
    msgspec.Meta(max_length=16),
]


class _Event(msgspec.Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, kw_only=True):
    event_id: EventId | None = None


class SessionUpdate(_Event, frozen=True, tag="session.update"):
    session: dict[str, Any]


class BufferAppend(_Event, frozen=True, tag="input_audio_buffer.append"):
    audio: str


class BufferCommit(_Event, frozen=True, tag="input_audio_buffer.commit"):
    pass


class BufferClear(_Event, frozen=True, tag="input_audio_buffer.clear"):
    pass


class OutputBufferClear(_Event, frozen=True, tag="output_audio_buffer.clear"):
    pass


class ItemCreate(_Event, frozen=True, tag="conversation.item.create"):
    item: dict[str, Any]
    previous_item_id: str | None = None


class ItemRetrieve(_Event, frozen=True, tag="conversation.item.retrieve"):
    item_id: str


class ItemTruncate(_Event, frozen=True, tag="conversation.item.truncate"):
    item_id: str
    content_index: Literal[0]
    audio_end_ms: Milliseconds


class ItemDelete(_Event, frozen=True, tag="conversation.item.delete"):
    item_id: str


class ResponseAudioOutput(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    format: AudioFormat | None = None
    voice: str | CustomVoice | None = None
    speed: Speed | None = None


class ResponseAudio(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    output: ResponseAudioOutput = ResponseAudioOutput()


class ResponseOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What one response changes of the session's settings; None keeps the session's.

    ``input`` replaces the conversation as what the model sees; ``conversation`` ``none`` keeps the answer out of it.
    ``interruptible`` is an extension: speech does not end an answer for which it is false. ``temperature`` is the beta
    dialect's.
    """

    conversation: Literal["auto", "none"] = "auto"
    input: tuple[dict[str, Any], ...] | None = None
    instructions: str | None = None
    output_modalities: Modalities | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    max_output_tokens: TokenLimit | None = None
    temperature: Temperature | msgspec.UnsetType = msgspec.UNSET
    audio: ResponseAudio = ResponseAudio()
    metadata: Metadata | None = None
    prompt: Prompt | None = None
    interruptible: bool = True


class ResponseCreate(_Event, frozen=True, tag="response.create"):
    response: ResponseOptions | None = None


class ResponseCancel(_Event, frozen=True, tag="response.cancel"):
    response_id: str | None = None


ClientEvent = (
    SessionUpdate
    | BufferAppend
    | BufferCommit
    | BufferClear
    | OutputBufferClear
    | ItemCreate
    | ItemRetrieve
    | ItemTruncate
    | ItemDelete
    | ResponseCreate
    | ResponseCancel
)

_decoder: msgspec.json.Decoder[ClientEvent] = msgspec.json.Decoder(ClientEvent)


class _Sender(msgspec.Struct):
    event_id: Any = None


def parse(message: str) -> ClientEvent:
    """Raises :class:`ProtocolError`: ``invalid_json``, ``invalid_event`` or what is wrong with one field."""
    try:
        return _decoder.decode(message)
    except msgspec.ValidationError as error:
        text = str(error)
        if text.startswith("Expected `object`") and " - at " not in text:
            raise ProtocolError("invalid_event", "An event is a JSON object with a 'type'.") from None
        raise from_validation(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise ProtocolError("invalid_json", "The message is not valid JSON.") from None


def event_id_of(message: str) -> str | None:
    """The ``event_id`` of an event that failed to parse, so that its sender can still be told which one it was."""
    try:
        event_id = msgspec.json.decode(message, type=_Sender).event_id
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        event_id = _lenient_event_id(message)
    return event_id if isinstance(event_id, str) and len(event_id) <= 512 else None


def _lenient_event_id(message: str) -> str | None:
    """The same of a message with half a surrogate pair in it, which a client gets when it cuts text in an emoji."""
    try:
        event_id = json.loads(message).get("event_id")
        event_id.encode()
    except (ValueError, RecursionError, AttributeError):
        return None
    return event_id if isinstance(event_id, str) else None
