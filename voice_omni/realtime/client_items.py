"""Conversation items as clients write them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from voice_omni.realtime.errors import ProtocolError, from_validation
from voice_omni.realtime.items import FunctionCall, FunctionCallOutput, Item, MessageItem, Part, PartType, Role, Status

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_CallId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_PART_TYPES: Final[dict[str, frozenset[str]]] = {
    "system": frozenset({"input_text"}),
    "user": frozenset({"input_text", "input_audio", "input_image"}),
    "assistant": frozenset({"output_text", "output_audio"}),
}
_IMAGE_TYPES: Final = ("data:image/png;base64,", "data:image/jpeg;base64,")


class _Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: PartType
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


class _Any(msgspec.Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, kw_only=True):
    id: _Id | None = None
    object: Literal["realtime.item"] | None = None
    status: Status | None = None


class _Message(_Any, frozen=True, tag="message"):
    role: Role
    content: tuple[_Part, ...]


class _Call(_Any, frozen=True, tag="function_call"):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: str
    call_id: _CallId | None = None


class _CallOutput(_Any, frozen=True, tag="function_call_output"):
    call_id: _CallId
    output: str


def parse_item(
    raw: dict[str, Any], ids: Callable[[str], str], path: str = "item", *, images: bool = False
) -> tuple[Item, tuple[str, ...]]:
    """A client's item, and the audio of which the words are not given, part by part, each in base64.

    ``ids`` makes the ids that the client left to the server. ``images``: whether the model takes pictures. ``path`` is
    where the item stands in the event. Raises :class:`ProtocolError`.
    """
    try:
        item = msgspec.convert(raw, _Message | _Call | _CallOutput)
    except msgspec.ValidationError as error:
        raise from_validation(error, path) from None
    item_id = item.id or ids("item")
    match item:
        case _Call():
            return FunctionCall(item_id, item.call_id or ids("call"), item.name, item.arguments), ()
        case _CallOutput():
            return FunctionCallOutput(item_id, item.call_id, item.output), ()
    parts: list[Part] = []
    audio: list[str] = []
    for index, part in enumerate(item.content):
        parts.append(_parse_part(part, item.role, f"{path}.content[{index}]", images))
        if part.type == "input_audio" and part.transcript is None:
            audio.append(part.audio or "")
    return MessageItem(item_id, item.role, parts), tuple(audio)


def _parse_part(part: _Part, role: Role, place: str, images: bool) -> Part:
    if part.type not in _PART_TYPES[role]:
        param = f"{place}.type"
        message = f"Invalid value for '{param}': '{part.type}' is not for {role} messages."
        raise ProtocolError("invalid_value", message, param)
    if part.type == "input_image":
        return Part(part.type, image=_image(part, place, images))
    spoken = part.type in ("input_audio", "output_audio")
    words = part.transcript if spoken else part.text
    if words is None and not (part.type == "input_audio" and part.audio is not None):
        raise _missing(f"{place}.{'transcript' if spoken else 'text'}")
    return Part(part.type, words)


def _image(part: _Part, place: str, images: bool) -> str:
    if not images:
        message = "This server's model takes no images: 'input_image' content is not supported."
        raise ProtocolError("unsupported_content_type", message, f"{place}.type")
    param = f"{place}.image_url"
    if part.image_url is None:
        raise _missing(param)
    header = next((known for known in _IMAGE_TYPES if part.image_url.startswith(known)), None)
    if header is not None:
        try:
            base64.b64decode(part.image_url[len(header) :], validate=True)
            return part.image_url
        except (binascii.Error, ValueError):
            pass
    message = f"Invalid value for '{param}': expected a data URI of a PNG or JPEG image in base64."
    raise ProtocolError("invalid_value", message, param)


def _missing(param: str) -> ProtocolError:
    return ProtocolError("missing_required_parameter", f"Missing required parameter: '{param}'.", param)
