"""What clients ask of the conversation's items: create, retrieve, truncate, delete, and use as a response's input."""

from __future__ import annotations

from typing import Any

from voice_omni.client.interface import Message
from voice_omni.realtime import client_events as client
from voice_omni.realtime.client_items import parse_item
from voice_omni.realtime.commands import ContextChanged, ItemAudio, Output
from voice_omni.realtime.conversation import Conversation, messages_of
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.events import EventWriter, ServerEvent
from voice_omni.realtime.ids import IdFactory
from voice_omni.realtime.input_audio import decode_base64, decode_whole, sample_rate_of
from voice_omni.realtime.items import FunctionCall, FunctionCallOutput, Item, MessageItem, not_truncatable
from voice_omni.realtime.outputs import without_oldest, without_unheard
from voice_omni.realtime.settings import AudioFormat


class ItemRequests:
    """Carries them out on one conversation. Each raises :class:`ProtocolError` and changes nothing, or is answered."""

    def __init__(
        self, conversation: Conversation, ids: IdFactory, write: EventWriter, *, images: bool, max_audio_ms: int
    ) -> None:
        """``images``: whether the model takes pictures. ``max_audio_ms``: of sound in one item."""
        self._conversation = conversation
        self._ids = ids
        self._write = write
        self._images = images
        self._max_audio_ms = max_audio_ms

    def create(self, event: client.ItemCreate, audio_format: AudioFormat) -> list[Output]:
        """``audio_format``: of the sound that the item may hold."""
        item, audio = parse_item(event.item, self._ids, images=self._images)
        sound = self._sound(item.id, audio, audio_format, "item.content")
        if isinstance(item, FunctionCallOutput) and not self._conversation.has_call(item.call_id):
            raise _no_such_call(item.call_id, "item.call_id")
        self._conversation.check_room(item)
        outputs: list[Output] = [*self.added(item, self._conversation.insert(item, event.previous_item_id))]
        if len(sound.samples):
            outputs.append(sound)
        return [*outputs, ContextChanged()]

    def retrieve(self, item_id: str) -> list[Output]:
        item = self._conversation.get(item_id, "item_retrieve_invalid_item_id")
        return [self._write("conversation.item.retrieved", item=item.to_json())]

    def truncate(self, event: client.ItemTruncate) -> list[Output]:
        """What was not heard at all is removed; it can be truncated again, retrieved and deleted all the same."""
        item = self._conversation.get(event.item_id, "item_truncate_invalid_item_id")
        if not isinstance(item, MessageItem):
            raise not_truncatable()
        item.truncate(event.audio_end_ms)
        return [*self.truncated(item, event.audio_end_ms), ContextChanged()]

    def delete(self, item_id: str) -> list[Output]:
        self._conversation.delete(item_id)
        return [self._write("conversation.item.deleted", item_id=item_id), ContextChanged()]

    def resolve(
        self, raw_items: tuple[dict[str, Any], ...], audio_format: AudioFormat
    ) -> tuple[tuple[Message, ...], ItemAudio | str | None]:
        """The ``input`` of a response: items of its own, and references to the conversation's.

        Returns what the model is told, and what it hears after that: see :class:`StartReply`. ``audio_format``: of the
        sound that the last item may hold.
        """
        items: list[Item] = []
        heard: ItemAudio | str | None = None
        for index, raw in enumerate(raw_items):
            path, last = f"response.input[{index}]", index == len(raw_items) - 1
            if raw.get("type") == "item_reference":
                item = self._referred(raw, path)
                heard = item.id if last and isinstance(item, MessageItem) and item.untranscribed else None
            else:
                item, audio = parse_item(raw, self._ids, path, images=self._images)
                if audio and not last:
                    message = "Sound that is not the last of 'response.input' needs a transcript."
                    raise ProtocolError("invalid_value", message, f"{path}.content")
                heard = self._sound(item.id, audio, audio_format, f"{path}.content") if audio else None
            if isinstance(item, FunctionCallOutput):
                calls = (each.call_id for each in items if isinstance(each, FunctionCall))
                if item.call_id not in calls:
                    raise _no_such_call(item.call_id, f"{path}.call_id")
            items.append(item)
        return messages_of(items), heard

    def added(self, item: Item, previous_id: str | None) -> list[ServerEvent]:
        """The events of an item that has been added whole, after ``previous_id``."""
        shown = item.to_json()
        return [
            self._write("conversation.item.added", previous_item_id=previous_id, item=shown),
            self._write("conversation.item.done", previous_item_id=previous_id, item=shown),
            *without_oldest(self._conversation, item, self._write),
        ]

    def truncated(self, item: MessageItem, end_ms: int) -> list[ServerEvent]:
        place = {"item_id": item.id, "content_index": 0, "audio_end_ms": end_ms}
        truncated = self._write("conversation.item.truncated", **place)
        return [truncated, *without_unheard(self._conversation, item, self._write)]

    def _referred(self, raw: dict[str, Any], path: str) -> Item:
        for name in raw:
            if name not in ("type", "id"):
                raise ProtocolError("unknown_parameter", f"Unknown parameter: '{path}.{name}'.", f"{path}.{name}")
        reference = raw.get("id")
        item = self._conversation.find(reference) if isinstance(reference, str) else None
        if item is None:
            raise ProtocolError("item_not_found", f"Item '{reference}' does not exist.", f"{path}.id")
        return item

    def _sound(self, item_id: str, audio: tuple[str, ...], audio_format: AudioFormat, param: str) -> ItemAudio:
        rate = sample_rate_of(audio_format)
        samples = decode_whole(b"".join(decode_base64(part, param) for part in audio), audio_format)
        if len(samples) * 1000 > self._max_audio_ms * rate:
            message = f"Invalid value for '{param}': more than {self._max_audio_ms // 1000} seconds of sound."
            raise ProtocolError("invalid_value", message, param)
        return ItemAudio(item_id, samples, rate)


def _no_such_call(call_id: str, param: str) -> ProtocolError:
    return ProtocolError("invalid_tool_call_id", f"Tool call ID '{call_id}' not found in conversation.", param)
