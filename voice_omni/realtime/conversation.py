"""The conversation: items in order, and what a model is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from voice_omni.client.interface import Message
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.items import FunctionCall, Item

ROOT: Final = "root"
"""As a ``previous_item_id``: the place before the first item."""


class Conversation:
    """Items in order, each with an id of its own."""

    def __init__(self, conversation_id: str) -> None:
        self.id = conversation_id
        self._items: list[Item] = []

    @property
    def last_id(self) -> str | None:
        return self._items[-1].id if self._items else None

    def previous_id(self, item_id: str) -> str | None:
        """The id of the item before this one; None when it is the first."""
        ids = [item.id for item in self._items]
        position = ids.index(item_id)
        return ids[position - 1] if position else None

    def find(self, item_id: str) -> Item | None:
        return next((item for item in reversed(self._items) if item.id == item_id), None)

    def get(self, item_id: str, code: str) -> Item:
        """Raises :class:`ProtocolError` with ``code`` when there is no such item."""
        item = self.find(item_id)
        if item is None:
            raise ProtocolError(code, f"Item with item_id '{item_id}' does not exist.", "item_id")
        return item

    def insert(self, item: Item, previous_id: str | None = None) -> str | None:
        """Put ``item`` after ``previous_id`` (:data:`ROOT`: first; None: last); returns the id before it.

        Raises :class:`ProtocolError`: ``item_already_exists``, ``item_not_found``, ``invalid_value``.
        """
        if item.id == ROOT:
            raise ProtocolError("invalid_value", f"'{ROOT}' is the place before the first item, not an id.", "item.id")
        if self.find(item.id) is not None:
            raise ProtocolError("item_already_exists", f"An item with id '{item.id}' already exists.", "item.id")
        if previous_id is None:
            position = len(self._items)
        elif previous_id == ROOT:
            position = 0
        else:
            if (previous := self.find(previous_id)) is None:
                raise ProtocolError(
                    "item_not_found", f"Previous item '{previous_id}' does not exist.", "previous_item_id"
                )
            position = self._items.index(previous) + 1
        self._items.insert(position, item)
        return self._items[position - 1].id if position else None

    def delete(self, item_id: str) -> None:
        self._items.remove(self.get(item_id, "item_delete_invalid_item_id"))

    def around(self, item_id: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """What was said before an item of the conversation, and what after it."""
        place = next(place for place, item in enumerate(self._items) if item.id == item_id)
        return messages_of(self._items[:place]), messages_of(self._items[place + 1 :])

    def messages(self, without: str | None = None) -> tuple[Message, ...]:
        """What was said so far, oldest first, leaving out one item and everything that nobody said or heard."""
        return messages_of(item for item in self._items if item.id != without)


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
