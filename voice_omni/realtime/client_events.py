"""Client events: what may arrive, and what is wrong with what should not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from voice_omni.realtime.errors import ProtocolError, from_validation
from voice_omni.realtime.settings import AudioFormat, CustomVoice, Modalities, NoTools, Speed, TokenLimit

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
    """

    conversation: Literal["auto", "none"] = "auto"
    input: tuple[dict[str, Any], ...] | None = None
    instructions: str | None = None
    output_modalities: Modalities | None = None
    tools: NoTools | None = None
    tool_choice: Literal["auto", "none"] | None = None
    max_output_tokens: TokenLimit | None = None
    audio: ResponseAudio = ResponseAudio()
    metadata: Metadata | None = None
    prompt: None = None


class ResponseCreate(_Event, frozen=True, tag="response.create"):
    response: ResponseOptions | None = None


class ResponseCancel(_Event, frozen=True, tag="response.cancel"):
    response_id: str | None = None


ClientEvent = (
    SessionUpdate
    | BufferAppend
    | BufferCommit
    | BufferClear
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
        return None
    return event_id if isinstance(event_id, str) and len(event_id) <= 512 else None
