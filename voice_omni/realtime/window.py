"""How much of a conversation the model is told, where the client has set a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from voice_omni.realtime.items import Item
from voice_omni.realtime.settings import RetentionRatio

Truncation = Literal["auto", "disabled"] | RetentionRatio

_CHARACTERS_PER_TOKEN: Final = 4
"""Of English text, with the vocabularies in use; no tokenizer is at hand here, and each pipeline has its own."""


class Window:
    """``retention_ratio`` with ``post_instructions``: at more tokens than that, the oldest items are left out until no
    more than the ratio of it are left. What was left out stays so, as a prompt that begins anew each time would be
    computed anew each time. Tokens are estimated.

    Whatever is chosen, a pipeline leaves out the oldest messages that its model cannot take.
    """

    def __init__(self, truncation: Truncation = "auto") -> None:
        self.truncation = truncation
        self._first: str | None = None

    @property
    def retention(self) -> float:
        """The share of a limit that is left once it has been passed."""
        return self.truncation.retention_ratio if isinstance(self.truncation, RetentionRatio) else 1.0

    def visible(self, items: Sequence[Item]) -> Sequence[Item]:
        """Those of ``items``, oldest first, that the model is told."""
        limit = self._limit
        if limit is None:
            self._first = None
            return items
        start = next((index for index, item in enumerate(items) if item.id == self._first), 0)
        tokens = [-(-item.characters // _CHARACTERS_PER_TOKEN) for item in items]
        total = sum(tokens[start:])
        if total > limit:
            while start < len(items) - 1 and total > limit * self.retention:
                total -= tokens[start]
                start += 1
            self._first = items[start].id
        return items[start:]

    @property
    def _limit(self) -> int | None:
        if not isinstance(self.truncation, RetentionRatio) or self.truncation.token_limits is None:
            return None
        return self.truncation.token_limits.post_instructions
