"""Conversation items: how clients write them, and what the server keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from voice_omni.realtime.alignment import Alignment
from voice_omni.realtime.errors import ProtocolError, from_validation

Role = Literal["system", "user", "assistant"]
Status = Literal["completed", "incomplete", "in_progress"]

_ITEM_ID = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_TEXT_TYPES: dict[str, frozenset[str]] = {
    "system": frozenset({"input_text"}),
    "user": frozenset({"input_text", "input_audio"}),
    "assistant": frozenset({"output_text", "output_audio"}),
}


class _Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: Literal["input_text", "input_audio", "output_text", "output_audio"]
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None


class _ClientItem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    type: Literal["message"]
    role: Role
    content: Annotated[tuple[_Part, ...], msgspec.Meta(min_length=1)]
    id: _ITEM_ID | None = None
    object: Literal["realtime.item"] | None = None
    status: Status | None = None


@dataclass(slots=True)
class Part:
    """One content part. Spoken parts hold what was said as ``text``; None while it is not known."""

    type: Literal["input_text", "input_audio", "output_text", "output_audio"]
    text: str | None = None

    @property
    def spoken(self) -> bool:
        return self.type in ("input_audio", "output_audio")

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, "transcript" if self.spoken else "text": self.text}


@dataclass(slots=True)
class Item:
    """One message of the conversation.

    ``alignment`` is set on spoken answers. ``heard_ms``: how much of that sound was played before it was cut; None
    while nothing says that it was cut. It is the server's estimate until the client has ``truncated`` the item.
    """

    id: str
    role: Role
    content: list[Part] = field(default_factory=list)
    status: Status = "completed"
    alignment: Alignment | None = None
    heard_ms: float | None = None
    truncated: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": self.status,
            "role": self.role,
            "content": [part.to_json() for part in self.content],
        }

    def text(self) -> str:
        """What the model is told of this message: of a spoken answer only what was heard."""
        whole = " ".join(part.text for part in self.content if part.text)
        if self.alignment is None or self.heard_ms is None:
            return whole
        return self.alignment.spoken(whole, self.heard_ms)

    def truncate(self, played_ms: int) -> None:
        """The listener heard ``played_ms`` of it and no more: the rest leaves the transcript as well.

        An item that was already cut shorter stays as it is.
        """
        if self.alignment is None:
            raise ProtocolError(
                "item_truncate_invalid_item_id", "Only model output audio messages can be truncated.", "item_id"
            )
        duration = self.alignment.duration_ms
        if played_ms > -(-duration // 1):
            raise ProtocolError(
                "invalid_value",
                f"Audio content of {duration:.0f}ms is already shorter than {played_ms}ms.",
                "audio_end_ms",
            )
        if not self.truncated or self.heard_ms is None or played_ms < self.heard_ms:
            self.heard_ms = float(played_ms)
        self.truncated = True
        if self.status != "in_progress":
            self.drop_unheard()

    def drop_unheard(self) -> None:
        """Take what a truncation cut off out of the transcript."""
        if self.truncated and self.alignment is not None and self.heard_ms is not None:
            for part in self.content:
                if part.text:
                    part.text = self.alignment.spoken(part.text, self.heard_ms)


def parse_item(raw: dict[str, Any], new_id: str, path: str = "item") -> tuple[Item, str | None]:
    """A client's item, and the base64 audio that it carries if its words are not given.

    Raises :class:`ProtocolError`. ``path`` is where the item stands in the event.
    """
    try:
        item = msgspec.convert(raw, _ClientItem)
    except msgspec.ValidationError as error:
        raise from_validation(error, path) from None
    allowed = _TEXT_TYPES[item.role]
    parts: list[Part] = []
    audio: str | None = None
    for index, part in enumerate(item.content):
        place = f"{path}.content[{index}]"
        if part.type not in allowed:
            raise ProtocolError(
                "invalid_value",
                f"Invalid value for '{place}.type': '{part.type}' is not for {item.role} messages.",
                f"{place}.type",
            )
        spoken = part.type in ("input_audio", "output_audio")
        words = part.transcript if spoken else part.text
        if words is None and not (part.type == "input_audio" and part.audio is not None):
            name = "transcript" if spoken else "text"
            raise ProtocolError(
                "missing_required_parameter", f"Missing required parameter: '{place}.{name}'.", f"{place}.{name}"
            )
        if words is None:
            audio = (audio or "") + (part.audio or "")
        parts.append(Part(part.type, words))
    return Item(item.id or new_id, item.role, parts), audio
