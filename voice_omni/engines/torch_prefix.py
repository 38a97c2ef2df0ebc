"""A row's KV cache, and what is kept of it for later rows that begin alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from typing import Final

import torch
from transformers import DynamicCache

from voice_omni.engines.interface import Piece
from voice_omni.engines.torch_model import Inputs, TorchModel

UNIQUE: Final = b""
"""The key of a position that no prompt can name, such as that of a codec frame."""


@dataclass(slots=True)
class Context:
    """A KV cache with one key for each of its positions: equal keys, from the first one on, mean equal content.

    A cache that comes from an earlier row holds more than its new row has read: ``length`` positions are the row's.
    ``kept``: the model's inner rows ``[width]`` at positions that were given as rows.
    """

    cache: DynamicCache = field(default_factory=DynamicCache)
    keys: list[bytes] = field(default_factory=list)
    kept: dict[int, torch.Tensor] = field(default_factory=dict)
    length: int = 0
    _tail: Inputs | None = None
    _last: torch.Tensor | None = None

    def read(self, model: TorchModel, keys: Sequence[bytes], inputs: Inputs) -> list[torch.Tensor]:
        """Append a piece of a prompt and compute of it what the cache does not hold; the inner rows of the piece."""
        start = self.length
        held = zip(self.keys[start : start + len(keys)], keys, strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] != UNIQUE, held))
        self._last = None
        if known < len(keys):
            self._cut(start + known)
            self._last = self._compute(model, keys[known:], inputs.behind(known))
        self.length = start + len(keys)
        self._tail = inputs.behind(len(keys) - 1)
        return [self.kept[place] for place in (inputs.at + start).tolist() if place in self.kept]

    def last(self, model: TorchModel) -> torch.Tensor:
        """``[width]``: the final hidden row of the last position, computed anew where only its KV is known.

        Raises ValueError for a prompt of no positions.
        """
        if self._tail is None:
            raise ValueError("a prompt must have at least one position")
        if self._last is None:
            key = self.keys[self.length - 1]
            self._cut(self.length - 1)
            self._last = self._compute(model, [key], self._tail)
        return self._last

    def append(self, model: TorchModel, key: bytes, inputs: Inputs) -> torch.Tensor:
        """One decode step; the final hidden row ``[width]``."""
        self.length += 1
        return self._compute(model, [key], inputs)

    def rewind(self, length: int) -> None:
        """The row has read only so many positions; the others are compared with what it reads next."""
        self.length = length
        self._tail = self._last = None

    def begin(self) -> None:
        """From now on it belongs to another row, which has read nothing yet."""
        self.rewind(0)

    def _compute(self, model: TorchModel, keys: Sequence[bytes], inputs: Inputs) -> torch.Tensor:
        start = len(self.keys)
        computed = model.forward(inputs, self.cache)
        self.keys += keys
        if computed.kept is not None:
            self.kept.update(zip((inputs.at + start).tolist(), computed.kept, strict=True))
        return computed.last

    def _cut(self, length: int) -> None:
        if surplus := len(self.keys) - length:
            self.cache.crop(-surplus)
            del self.keys[length:]
            self.kept = {place: row for place, row in self.kept.items() if place < length}


class Kept:
    """Contexts of rows that have ended, by session; the least recently used go first when ``limit`` positions are
    exceeded."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._contexts: OrderedDict[str, Context] = OrderedDict()

    def take(self, session: str | None) -> Context:
        context = self._contexts.pop(session, None) if session is not None else None
        if context is None:
            return Context()
        context.begin()
        return context

    def put(self, session: str | None, context: Context) -> None:
        if session is None:
            return
        self._contexts[session] = context
        self._contexts.move_to_end(session)
        held = sum(len(each.keys) for each in self._contexts.values())
        while held > self._limit:
            _, dropped = self._contexts.popitem(last=False)
            held -= len(dropped.keys)

    def clear(self) -> None:
        self._contexts.clear()


def keys_of(piece: Piece, positions: torch.Tensor) -> list[bytes]:
    """What stands at each position of a piece: a token or the content of a row, and where in rotary space it stands."""
    places = positions.T.contiguous().cpu().numpy()
    keys = [token_key(token, place.tobytes()) for token, place in zip(piece.tokens, places, strict=True)]
    if piece.rows is not None:
        at = range(len(piece)) if piece.at is None else piece.at.tolist()
        for number, place in enumerate(at):
            content = blake2b(piece.rows[number].tobytes(), digest_size=16)
            if piece.deepstack is not None:
                content.update(piece.deepstack[:, number].tobytes())
            keys[place] += content.digest()
    return keys


def token_key(token: int, position: bytes) -> bytes:
    """``position``: float32 ``[3]``."""
    return token.to_bytes(8, "little", signed=True) + position
