"""One response: its events, in the contract's order, from ``response.created`` to exactly one ``response.done``."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec

from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.alignment import Alignment
from voice_omni.realtime.conversation import Conversation
from voice_omni.realtime.events import EventWriter, ServerEvent, usage
from voice_omni.realtime.items import Item, Part
from voice_omni.realtime.settings import AudioFormat, TokenLimit

Modality = Literal["audio", "text"]
CancelReason = Literal["turn_detected", "client_cancelled"]


class ResponseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one response: the session's settings with the request's own changes."""

    output: Modality
    instructions: str
    voice: str
    speed: float
    output_format: AudioFormat
    max_output_tokens: TokenLimit
    metadata: dict[str, str] | None = None


class Response:
    """Writes one answer. Once it is done, nothing more comes out of it.

    ``conversation`` None keeps its message out of the conversation. The message appears with its first content, so
    that a response which fails or is cancelled before it says anything leaves none behind.
    """

    def __init__(
        self,
        response_id: str,
        item_id: str,
        settings: ResponseSettings,
        conversation: Conversation | None,
        sample_rate: int,
        write: EventWriter,
    ) -> None:
        """``sample_rate``: Hz, of the samples that :meth:`speak` counts."""
        self.id = response_id
        self.settings = settings
        self.item: Item | None = None
        self._item_id = item_id
        self._conversation = conversation
        self._rate = sample_rate
        self._write = write
        self._status = "in_progress"
        self._details: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self._status != "in_progress"

    @property
    def in_conversation(self) -> bool:
        return self._conversation is not None

    def created(self) -> ServerEvent:
        return self._write("response.created", response=self.to_json())

    def say(self, text: str) -> list[ServerEvent]:
        """The next piece of the answer's words: its transcript, or its text when nothing is spoken."""
        if self.done or not text:
            return []
        events = self._begin()
        part = self._part()
        part.text = (part.text or "") + text
        kind = "response.output_audio_transcript.delta" if part.spoken else "response.output_text.delta"
        return [*events, self._write(kind, **self._place(), delta=text)]

    def speak(self, data: bytes, samples: int, marks: tuple[tuple[int, str], ...] = ()) -> list[ServerEvent]:
        """The next piece of the answer's sound: ``data`` in the output format, worth ``samples`` of the source."""
        if self.done:
            return []
        events = self._begin()
        if self.item is not None and self.item.alignment is not None:
            self.item.alignment.append(samples, marks)
        if data:
            encoded = base64.b64encode(data).decode("ascii")
            events.append(self._write("response.output_audio.delta", **self._place(), delta=encoded))
        return events

    def complete(
        self,
        finish_reason: Literal["stop", "length"],
        input_tokens: int,
        output_tokens: int,
        *,
        spoken_input: bool,
        extra: dict[str, Any] | None = None,
    ) -> list[ServerEvent]:
        """The answer is whole, or ended at the token limit."""
        if self.item is not None and self.item.alignment is not None:
            self.item.alignment.complete = True
        counted = usage(
            input_tokens, output_tokens, spoken_input=spoken_input, spoken_output=self.settings.output == "audio"
        )
        if finish_reason == "length":
            details = {"type": "incomplete", "reason": "max_output_tokens"}
            return self._finish("incomplete", details, counted, extra)
        return self._finish("completed", None, counted, extra)

    def cancel(self, reason: CancelReason) -> list[ServerEvent]:
        self._stop_at_sent()
        return self._finish("cancelled", {"type": "cancelled", "reason": reason}, usage(), None)

    def fail(self, error: ErrorInfo) -> list[ServerEvent]:
        kind = "invalid_request_error" if error.code in ("invalid_value", "unsupported_route") else "server_error"
        self._stop_at_sent()
        details = {"type": "failed", "error": {"type": kind, "code": error.code, "message": error.message}}
        return self._finish("failed", details, usage(), None)

    def to_json(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": self._status,
            "status_details": self._details,
            "output": [self.item.to_json()] if self.item is not None else [],
            "conversation_id": self._conversation.id if self._conversation is not None else None,
            "output_modalities": [settings.output],
            "max_output_tokens": settings.max_output_tokens,
            "audio": {"output": {"format": msgspec.to_builtins(settings.output_format), "voice": settings.voice}},
            "metadata": settings.metadata,
            "usage": self._usage,
        }

    def _begin(self) -> list[ServerEvent]:
        """The events that precede the first content."""
        if self.item is not None:
            return []
        item = Item(self._item_id, "assistant", status="in_progress")
        shown = item.to_json()
        events = [self._write("response.output_item.added", response_id=self.id, output_index=0, item=shown)]
        if self._conversation is not None:
            previous = self._conversation.insert(item)
            events.append(self._write("conversation.item.added", previous_item_id=previous, item=shown))
        if self.settings.output == "audio":
            item.alignment = Alignment(self._rate)
            item.content.append(Part("output_audio", ""))
        else:
            item.content.append(Part("output_text", ""))
        self.item = item
        events.append(self._write("response.content_part.added", **self._place(), part=self._part_json("")))
        return events

    def _finish(
        self, status: str, details: dict[str, Any] | None, counted: dict[str, Any], extra: dict[str, Any] | None
    ) -> list[ServerEvent]:
        if self.done:
            return []
        self._status, self._details, self._usage = status, details, counted
        events = self._close_item("completed" if status == "completed" else "incomplete")
        return [*events, self._write("response.done", response={**self.to_json(), **(extra or {})})]

    def _stop_at_sent(self) -> None:
        """Words whose sound was never sent have not been heard."""
        item = self.item
        if item is not None and item.alignment is not None and item.heard_ms is None:
            item.heard_ms = item.alignment.duration_ms

    def _close_item(self, status: Literal["completed", "incomplete"]) -> list[ServerEvent]:
        item = self.item
        if item is None:
            return []
        item.status = status
        item.drop_unheard()
        part, place = self._part(), self._place()
        text = part.text or ""
        if part.spoken:
            events = [
                self._write("response.output_audio.done", **place),
                self._write("response.output_audio_transcript.done", **place, transcript=text),
            ]
        else:
            events = [self._write("response.output_text.done", **place, text=text)]
        shown = item.to_json()
        events.append(self._write("response.content_part.done", **place, part=self._part_json(text)))
        events.append(self._write("response.output_item.done", response_id=self.id, output_index=0, item=shown))
        if self._conversation is not None and self._conversation.find(item.id) is not None:
            previous = self._conversation.previous_id(item.id)
            events.append(self._write("conversation.item.done", previous_item_id=previous, item=shown))
        return events

    def _part(self) -> Part:
        if self.item is None:
            raise RuntimeError("the response has no message yet")
        return self.item.content[0]

    def _part_json(self, text: str) -> dict[str, Any]:
        return {"type": "audio", "transcript": text} if self._part().spoken else {"type": "text", "text": text}

    def _place(self) -> dict[str, Any]:
        return {"response_id": self.id, "item_id": self._item_id, "output_index": 0, "content_index": 0}
