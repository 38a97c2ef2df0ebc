"""What the server keeps of a conversation's items, and how it shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from voice_omni.client.interface import Message, ToolCall
from voice_omni.realtime.alignment import Alignment
from voice_omni.realtime.errors import ProtocolError

Role = Literal["system", "user", "assistant"]
Status = Literal["completed", "incomplete", "in_progress"]
PartType = Literal["input_text", "input_audio", "input_image", "output_text", "output_audio"]


@dataclass(slots=True)
class Part:
    """One content part. Spoken parts hold what was said as ``text``; None while it is not known.

    ``image``: the data URI of a picture, which is all that it holds.
    """

    type: PartType
    text: str | None = None
    image: str | None = None

    @property
    def spoken(self) -> bool:
        return self.type in ("input_audio", "output_audio")

    @property
    def characters(self) -> int:
        return len(self.text or "") + len(self.image or "")

    def to_json(self) -> dict[str, Any]:
        if self.image is not None:
            return {"type": self.type, "image_url": self.image}
        return {"type": self.type, "transcript" if self.spoken else "text": self.text}


@dataclass(slots=True)
class MessageItem:
    """One message of the conversation.

    ``alignment`` is set on spoken answers, ``response_id`` on all. ``heard_ms``: how much of that sound was played
    before it was cut; None while nothing says that it was cut. It is the server's estimate until the client has
    ``truncated`` the item.
    """

    id: str
    role: Role
    content: list[Part] = field(default_factory=list)
    status: Status = "completed"
    alignment: Alignment | None = None
    response_id: str | None = None
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

    @property
    def characters(self) -> int:
        """How much it holds."""
        return sum(part.characters for part in self.content)

    @property
    def sound_index(self) -> int:
        """Which of its parts is what the person said; the first if none is."""
        return next((index for index, part in enumerate(self.content) if part.type == "input_audio"), 0)

    def transcribe(self, text: str) -> None:
        """``text`` is what is said in its sound, however many parts that has."""
        for part in self.content:
            if part.type == "input_audio" and part.text is None:
                part.text, text = text, ""

    @property
    def untranscribed(self) -> bool:
        """Whether it is sound of which the words are not known."""
        return any(part.type == "input_audio" and part.text is None for part in self.content)

    @property
    def unheard(self) -> bool:
        """An answer that is over and of whose sound, for all that is known for certain, nothing was heard."""
        if self.alignment is None or self.status == "in_progress":
            return False
        return (self.truncated and self.heard_ms == 0) or (self.status == "incomplete" and self.alignment.samples == 0)

    def message(self) -> Message | None:
        """What the model is told of it: of a spoken answer only what was heard; None if that is nothing."""
        return self._message(self.content)

    def message_beside_sound(self) -> Message | None:
        """What the model is told of an item whose sound it hears: the text and pictures that came with that."""
        return self._message([part for part in self.content if not part.spoken])

    def _message(self, parts: Sequence[Part]) -> Message | None:
        text = " ".join(part.text for part in parts if part.text)
        if self.alignment is not None and self.heard_ms is not None:
            text = self.alignment.spoken(text, self.heard_ms)
        images = tuple(part.image for part in parts if part.image is not None)
        return Message(self.role, text, images=images) if text or images else None

    def truncate(self, played_ms: int) -> None:
        """The listener heard ``played_ms`` of it and no more: the rest leaves the transcript as well.

        An item that was already cut shorter stays as it is. Raises :class:`ProtocolError`.
        """
        if self.alignment is None:
            raise not_truncatable()
        duration = self.alignment.duration_ms
        if played_ms > -(-duration // 1):
            raise ProtocolError(
                "invalid_value",
                f"Audio content of {duration:.0f}ms is already shorter than {played_ms}ms.",
                "audio_end_ms",
            )
        self.cut(played_ms)

    def cut(self, played_ms: float) -> int:
        """For certain no more than ``played_ms`` of it was heard. Returns that in whole milliseconds of its sound."""
        if self.alignment is not None:
            played_ms = min(played_ms, self.alignment.duration_ms)
        if not self.truncated or self.heard_ms is None or played_ms < self.heard_ms:
            self.heard_ms = float(played_ms)
        self.truncated = True
        if self.status != "in_progress":
            self.drop_unheard()
        return int(played_ms)

    def drop_unheard(self) -> None:
        """Take what a truncation cut off out of the transcript."""
        if self.truncated and self.alignment is not None and self.heard_ms is not None:
            for part in self.content:
                if part.text:
                    part.text = self.alignment.spoken(part.text, self.heard_ms)


@dataclass(slots=True)
class FunctionCall:
    """The model asks the client to carry out a function. ``arguments``: JSON text, as far as it has been written."""

    id: str
    call_id: str
    name: str
    arguments: str = ""
    status: Status = "completed"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "function_call",
            "status": self.status,
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments,
        }

    @property
    def characters(self) -> int:
        return len(self.name) + len(self.arguments)

    def message(self) -> Message | None:
        """A call that was cut off is nothing that the model needs to know."""
        if self.status != "completed":
            return None
        return Message("assistant", "", (ToolCall(self.call_id, self.name, self.arguments),))


@dataclass(slots=True)
class FunctionCallOutput:
    """What came of a function call."""

    id: str
    call_id: str
    output: str
    status: Status = "completed"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "function_call_output",
            "status": self.status,
            "call_id": self.call_id,
            "output": self.output,
        }

    @property
    def characters(self) -> int:
        return len(self.output)

    def message(self) -> Message | None:
        return Message("tool", self.output, call_id=self.call_id)


Item = MessageItem | FunctionCall | FunctionCallOutput


def not_truncatable() -> ProtocolError:
    message = "Only model output audio messages can be truncated."
    return ProtocolError("item_truncate_invalid_item_id", message, "item_id")
