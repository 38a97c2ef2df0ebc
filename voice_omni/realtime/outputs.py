"""What a response puts out: messages and function calls, each with its events in the contract's order."""

from __future__ import annotations

from typing import Any, Literal

from voice_omni.realtime.alignment import Alignment
from voice_omni.realtime.conversation import Conversation
from voice_omni.realtime.events import EventWriter, ServerEvent
from voice_omni.realtime.items import FunctionCall, Item, MessageItem, Part


def without_oldest(conversation: Conversation, keep: Item, write: EventWriter) -> list[ServerEvent]:
    """Let the conversation forget what it has no room for, now that ``keep`` is in it."""
    return [write("conversation.item.deleted", item_id=item_id) for item_id in conversation.make_room(keep)]


def without_unheard(conversation: Conversation, item: Item, write: EventWriter) -> list[ServerEvent]:
    """Take ``item`` out of the conversation if nothing of it was heard."""
    if isinstance(item, MessageItem) and item.unheard and conversation.remove_unheard(item.id):
        return [write("conversation.item.deleted", item_id=item.id)]
    return []


class Slot:
    """One item's place among a response's outputs, and in the conversation if the response writes it."""

    def __init__(self, response_id: str, index: int, conversation: Conversation | None, write: EventWriter) -> None:
        self.response_id = response_id
        self.index = index
        self.write = write
        self._conversation = conversation

    def added(self, item: Item) -> list[ServerEvent]:
        shown = item.to_json()
        events = [self._item_event("added", shown)]
        if self._conversation is not None:
            previous = self._conversation.insert(item)
            events.append(self.write("conversation.item.added", previous_item_id=previous, item=shown))
            events += without_oldest(self._conversation, item, self.write)
        return events

    def done(self, item: Item) -> list[ServerEvent]:
        """A client may have deleted the item meanwhile: then the conversation has nothing to be told of.

        An answer of which nothing was heard leaves the conversation again.
        """
        shown = item.to_json()
        events = [self._item_event("done", shown)]
        if self._conversation is not None and self._conversation.find(item.id) is not None:
            previous = self._conversation.previous_id(item.id)
            events.append(self.write("conversation.item.done", previous_item_id=previous, item=shown))
            events += without_unheard(self._conversation, item, self.write)
        return events

    def place(self, item: Item) -> dict[str, Any]:
        """The fields that tell where an event of the item belongs."""
        return {"response_id": self.response_id, "item_id": item.id, "output_index": self.index}

    def _item_event(self, what: Literal["added", "done"], shown: dict[str, Any]) -> ServerEvent:
        kind = f"response.output_item.{what}"
        return self.write(kind, response_id=self.response_id, output_index=self.index, item=shown)


class MessageOutput:
    """A message of the assistant, spoken or written."""

    def __init__(self, item_id: str, slot: Slot, sample_rate: int | None) -> None:
        """``sample_rate``: Hz, of the samples that :meth:`speak` counts; None for a written message."""
        self._slot = slot
        self._spoken = sample_rate is not None
        self._part = Part("output_audio" if self._spoken else "output_text", "")
        self._alignment = Alignment(sample_rate) if sample_rate is not None else None
        self.item = MessageItem(
            item_id, "assistant", status="in_progress", alignment=self._alignment, response_id=slot.response_id
        )

    @property
    def open(self) -> bool:
        return self.item.status == "in_progress"

    def begin(self) -> list[ServerEvent]:
        events = self._slot.added(self.item)
        self.item.content.append(self._part)
        return [*events, self._write("response.content_part.added", part=self._part_json(""))]

    def say(self, text: str) -> ServerEvent:
        """The next piece of the words: of the transcript if the message is spoken."""
        self._part.text = (self._part.text or "") + text
        kind = "response.output_audio_transcript.delta" if self._spoken else "response.output_text.delta"
        return self._write(kind, delta=text)

    def speak(self, data: bytes, samples: int, marks: tuple[tuple[int, str], ...]) -> list[ServerEvent]:
        """Sound; ``data`` is what the client gets, ``samples`` and ``marks`` count the source's."""
        if self._alignment is not None:
            self._alignment.append(samples, marks)
        if not data:
            return []
        return [self._write("response.output_audio.delta", delta=data)]

    def stop_at_sent(self) -> None:
        """Words whose sound was never sent have not been heard."""
        if self._alignment is not None and self.item.heard_ms is None:
            self.item.heard_ms = self._alignment.duration_ms

    def close(self, status: Literal["completed", "incomplete"], *, whole: bool) -> list[ServerEvent]:
        """``whole``: all of its sound was made."""
        if self._alignment is not None:
            self._alignment.complete = whole
        self.item.status = status
        self.item.drop_unheard()
        text = self._part.text or ""
        if self._spoken:
            events = [
                self._write("response.output_audio.done"),
                self._write("response.output_audio_transcript.done", transcript=text),
            ]
        else:
            events = [self._write("response.output_text.done", text=text)]
        part = self._write("response.content_part.done", part=self._part_json(text))
        return [*events, part, *self._slot.done(self.item)]

    def _part_json(self, text: str) -> dict[str, Any]:
        return {"type": "audio", "transcript": text} if self._spoken else {"type": "text", "text": text}

    def _write(self, kind: str, **fields: Any) -> ServerEvent:
        return self._slot.write(kind, **self._slot.place(self.item), content_index=0, **fields)


class CallOutput:
    """A function call, streamed as it is written."""

    def __init__(self, item: FunctionCall, slot: Slot) -> None:
        self.item = item
        self._slot = slot

    @property
    def open(self) -> bool:
        return self.item.status == "in_progress"

    def begin(self) -> list[ServerEvent]:
        return self._slot.added(self.item)

    def write(self, arguments: str) -> list[ServerEvent]:
        """The next piece of the arguments' JSON text."""
        if not arguments:
            return []
        self.item.arguments += arguments
        return [self._write("response.function_call_arguments.delta", delta=arguments)]

    def complete(self) -> list[ServerEvent]:
        self.item.status = "completed"
        done = self._write("response.function_call_arguments.done", name=self.item.name, arguments=self.item.arguments)
        return [done, *self._slot.done(self.item)]

    def cut(self) -> list[ServerEvent]:
        """It was not written to its end. Its arguments are not declared done: clients carry out what is."""
        self.item.status = "incomplete"
        return self._slot.done(self.item)

    def _write(self, kind: str, **fields: Any) -> ServerEvent:
        return self._slot.write(kind, **self._slot.place(self.item), call_id=self.item.call_id, **fields)


Output = MessageOutput | CallOutput
