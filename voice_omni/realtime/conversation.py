"""The conversation: items in order, and what a model is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from voice_omni.client.interface import Message
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.items import FunctionCall, Item, MessageItem
from voice_omni.realtime.window import Truncation, Window

ROOT: Final = "root"
"""As a ``previous_item_id``: the place before the first item."""
_MAX_UNHEARD: Final = 64
"""Removed items that are remembered for clients who still speak of them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one conversation may hold. A message of 20 MB, the largest that a client can send, fits in."""

    items: int = 4096
    characters: int = 32 * 1024 * 1024


DEFAULT_LIMITS: Final = Limits()


class Conversation:
    """Items in order, each with an id of its own.

    An answer of which nothing was heard is removed; what its client asks about it can still be answered. Beyond its
    limits the conversation forgets its oldest items, or takes no more from a client who has disabled that.
    """

    def __init__(self, conversation_id: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self.id = conversation_id
        self._limits = limits
        self._items: dict[str, Item] = {}
        self._order: list[str] = []
        self._unheard: dict[str, tuple[Item, str | None]] = {}  # with the id that stood before
        self._window = Window()

    @property
    def last_id(self) -> str | None:
        return self._order[-1] if self._order else None

    def truncate_by(self, truncation: Truncation) -> None:
        """How the conversation is shortened from now on: the session's ``truncation``."""
        self._window.truncation = truncation

    def previous_id(self, item_id: str) -> str | None:
        """The id of the item before this one; None when it is the first."""
        position = self._order.index(item_id)
        return self._order[position - 1] if position else None

    def find(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def has_call(self, call_id: str) -> bool:
        return any(isinstance(item, FunctionCall) and item.call_id == call_id for item in self._items.values())

    def get(self, item_id: str, code: str) -> Item:
        """An item, or one that was removed because nothing of it was heard.

        Raises :class:`ProtocolError` with ``code`` when there is no such item.
        """
        if (item := self._items.get(item_id)) is not None:
            return item
        if item_id in self._unheard:
            return self._unheard[item_id][0]
        raise ProtocolError(code, f"Item with item_id '{item_id}' does not exist.", "item_id")

    def insert(self, item: Item, previous_id: str | None = None) -> str | None:
        """Put ``item`` after ``previous_id`` (:data:`ROOT`: first; None: last); returns the id before it.

        Raises :class:`ProtocolError`: ``item_already_exists``, ``item_not_found``, ``invalid_value``.
        """
        if item.id == ROOT:
            raise ProtocolError("invalid_value", f"'{ROOT}' is the place before the first item, not an id.", "item.id")
        if item.id in self._items:
            raise ProtocolError("item_already_exists", f"An item with id '{item.id}' already exists.", "item.id")
        position = self._position_after(previous_id)
        self._unheard.pop(item.id, None)
        self._items[item.id] = item
        self._order.insert(position, item.id)
        return self._order[position - 1] if position else None

    def delete(self, item_id: str) -> None:
        """Raises :class:`ProtocolError` ``item_delete_invalid_item_id``."""
        if self._unheard.pop(item_id, None) is None:
            self.get(item_id, "item_delete_invalid_item_id")
            self._remove(item_id)

    def remove_unheard(self, item_id: str) -> bool:
        """Nothing of the item was heard. Whether it was there."""
        if item_id not in self._items:
            return False
        previous = self.previous_id(item_id)
        self._unheard[item_id] = self._remove(item_id), previous
        if len(self._unheard) > _MAX_UNHEARD:
            del self._unheard[next(iter(self._unheard))]
        return True

    def check_room(self, item: Item) -> None:
        """Whether a client may add the item. Raises :class:`ProtocolError` ``conversation_full``."""
        limits = self._limits
        full = len(self._items) >= limits.items or self._characters + item.characters > limits.characters
        if full and self._window.truncation == "disabled":
            message = (
                f"The conversation is full: it holds at most {limits.items} items and {limits.characters} characters. "
                "Delete items, or allow its truncation."
            )
            raise ProtocolError("conversation_full", message)

    def make_room(self, keep: Item) -> list[str]:
        """Forget the oldest items as far as the limits need it, but ``keep``, which has just been added, and what is
        still being written. Returns their ids."""
        limits, count, held = self._limits, len(self._items), self._characters
        if count <= limits.items and held <= limits.characters:
            return []
        share, forgotten = self._window.retention, []
        for item in map(self._items.__getitem__, self._order):
            if count <= limits.items * share and held <= limits.characters * share:
                break
            if item is not keep and item.status != "in_progress":
                count, held = count - 1, held - item.characters
                forgotten.append(item.id)
        for item_id in forgotten:
            self._remove(item_id)
        return forgotten

    def around(self, item_id: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """What was said before the sound of an item of the conversation, and what after it."""
        items = list(self._window.visible([self._items[each] for each in self._order]))
        place = next((place for place, item in enumerate(items) if item.id == item_id), None)
        if place is None:  # it is older than anything that the model is told
            return (), messages_of(items)
        item = items[place]
        beside = item.message_beside_sound() if isinstance(item, MessageItem) else None
        before = messages_of(items[:place])
        return (before if beside is None else (*before, beside)), messages_of(items[place + 1 :])

    def messages(self, without: str | None = None) -> tuple[Message, ...]:
        """What was said so far, oldest first, leaving out one item and everything that nobody said or heard."""
        items = [self._items[item_id] for item_id in self._order if item_id != without]
        return messages_of(self._window.visible(items))

    def _remove(self, item_id: str) -> Item:
        previous = self.previous_id(item_id)
        for unheard_id, (item, before) in self._unheard.items():
            if before == item_id:
                self._unheard[unheard_id] = item, previous
        self._order.remove(item_id)
        return self._items.pop(item_id)

    def _position_after(self, previous_id: str | None) -> int:
        if previous_id is None:
            return len(self._order)
        place = self._unheard[previous_id][1] if previous_id in self._unheard else previous_id
        if place is None or place == ROOT:
            return 0
        if place not in self._items:
            raise ProtocolError("item_not_found", f"Previous item '{previous_id}' does not exist.", "previous_item_id")
        return self._order.index(place) + 1

    @property
    def _characters(self) -> int:
        return sum(item.characters for item in self._items.values())


def messages_of(items: Iterable[Item]) -> tuple[Message, ...]:
    """What the model is told of them. Calls that were made together are one message."""
    messages: list[Message] = []
    for item in items:
        message = item.message()
        if message is None:
            continue
        if isinstance(item, FunctionCall) and messages and messages[-1].tool_calls:
            calls = (*messages.pop().tool_calls, *message.tool_calls)
            message = msgspec.structs.replace(message, tool_calls=calls)
        messages.append(message)
    return tuple(messages)
