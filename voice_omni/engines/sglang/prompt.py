"""A row's prompt as far as it has been fed: token ids, embedding rows in the place of some, and rotary positions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Piece, Rows
from voice_omni.proto.errors import OmniError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model takes: ids below ``vocabulary``; rows of ``width`` (None: no rows, and no rotary positions), with
    ``layers`` more of them for the first layers. ``framed``: the model has a frame head, which never draws the first
    codes ``suppressed``; it takes conditions, and a prompt that ends with a row."""

    vocabulary: int
    width: int | None = None
    layers: int = 0
    framed: bool = False
    suppressed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Embedding rows of one piece: ``spans`` of the prompt, first and last position, that they stand for in order.

    ``rows``: float32 ``[m, width]``, or ``[m, width * (1 + layers)]`` where ``deep``, with what is added behind the
    first layers. ``digest`` tells apart what differs in rows or rotary positions.
    """

    spans: tuple[tuple[int, int], ...]
    rows: Rows
    deep: bool
    digest: int

    @classmethod
    def following(cls, start: int, rows: Rows) -> Given:
        """Rows from the position ``start`` on, where positions count on from those before."""
        return cls(((start, start + len(rows) - 1),), rows, False, _digest(rows))

    def without_last(self) -> Given | None:
        """All but the last position; None if that leaves nothing. It is known by the same digest, since what was
        computed of the others is the same."""
        if len(self.rows) == 1:
            return None
        *spans, (first, last) = self.spans
        shorter = (*spans, (first, last - 1)) if first < last else tuple(spans)
        return Given(shorter, self.rows[:-1], self.deep, self.digest)


class Prompt:
    """Checks what it takes in: a request that the model cannot compute would end the scheduler for every row.

    Raises :class:`OmniError` ``invalid_value``.
    """

    def __init__(self, limits: Limits) -> None:
        self.tokens: list[int] = []
        self.given: list[Given] = []
        self._limits = limits
        self._positions: list[NDArray[np.int64]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, piece: Piece) -> None:
        if not len(piece):
            return
        for token in piece.tokens:
            if not 0 <= token < self._limits.vocabulary:
                raise _invalid(f"there is no token {token} in a vocabulary of {self._limits.vocabulary}")
        positions = self._rotary(piece)
        if piece.rows is not None:
            self.given.append(self._rows(piece, piece.rows, positions))
        elif piece.at is not None or piece.deepstack is not None:
            raise _invalid("a piece names rows and has none")
        self.tokens += piece.tokens
        self._positions.append(positions)
        self._next = int(positions[:, -1].max()) + 1

    @property
    def ends_with_row(self) -> bool:
        return bool(self.given) and self.given[-1].spans[-1][1] == len(self.tokens) - 1

    def positions(self, said: int) -> NDArray[np.int64] | None:
        """Rotary positions ``[3, n + said]`` of the prompt and so many tokens behind it. None: those that the model
        counts by itself."""
        if not self.given:
            return None
        return np.concatenate([*self._positions, _counted(self._next, said)], axis=1)

    def _rotary(self, piece: Piece) -> NDArray[np.int64]:
        if piece.positions is None:
            return _counted(self._next, len(piece))
        if self._limits.width is None:
            raise _invalid("this model counts its rotary positions by itself")
        if piece.positions.shape != (3, len(piece)):
            raise _invalid(f"rotary positions are [3, {len(piece)}] here, not {list(piece.positions.shape)}")
        whole = piece.positions.astype(np.int64)
        if not np.array_equal(whole, piece.positions):
            raise _invalid("SGLang's rotary positions are whole numbers")
        return whole

    def _rows(self, piece: Piece, rows: Rows, positions: NDArray[np.int64]) -> Given:
        width, layers = self._limits.width, self._limits.layers
        if width is None:
            raise _invalid("this model takes token ids alone")
        at = np.arange(len(piece)) if piece.at is None else piece.at
        if rows.shape != (len(at), width):
            raise _invalid(f"rows are [{len(at)}, {width}] here, not {list(rows.shape)}")
        if not len(at) or at[0] < 0 or at[-1] >= len(piece) or (np.diff(at) < 1).any():
            raise _invalid("the places of rows ascend within their piece")
        if piece.deepstack is not None:
            if piece.deepstack.shape != (layers, *rows.shape):
                raise _invalid(f"deepstack is {[layers, *rows.shape]} here, not {list(piece.deepstack.shape)}")
            rows = np.concatenate([rows, *piece.deepstack], axis=1)
        runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        start = len(self.tokens)
        spans = tuple((start + int(run[0]), start + int(run[-1])) for run in runs)
        return Given(spans, rows, piece.deepstack is not None, _digest(rows, positions.tobytes()))


def _digest(rows: Rows, more: bytes = b"") -> int:
    content = hashlib.sha256(np.ascontiguousarray(rows).tobytes() + more).digest()
    return int.from_bytes(content[:8], "big")


def _counted(start: int, count: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(start, start + count), (3, count))


def _invalid(message: str) -> OmniError:
    return OmniError("invalid_value", message)
