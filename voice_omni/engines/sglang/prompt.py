"""A row's prompt as far as it has been fed: token ids, embedding rows in the place of some, and rotary positions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Piece, Rows
from voice_omni.proto.errors import OmniError

NO_TOKEN: Final = 1 << 32
"""No id of a token is as large."""

_ID: Final = (1 << 56) - 1

_KEY: Final = os.urandom(16)
"""So that nobody can tell which contents have the same id."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model takes: ids below ``vocabulary``; rows of ``width`` (None: no rows, and no rotary positions), with
    ``layers`` more of them for the first layers. ``hidden``: and whether it reports a layer's rows.
    ``framed``: the model has a frame head, which never draws the first codes ``suppressed``; it takes conditions, and a
    prompt that ends with a row."""

    vocabulary: int
    width: int | None = None
    layers: int = 0
    hidden: bool = False
    framed: bool = False
    suppressed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Embedding rows of one piece: ``spans`` of the prompt, first and last position, that they stand for in order.

    ``rows``: float32 ``[m, width]``, or ``[m, width * (1 + layers)]`` where ``deep``, with what is added behind the
    first layers. ``ids``: int64 ``[m]``, what the radix cache knows each row by: its content and its rotary position,
    so that the same rows are found again whichever pieces they come in. None is the id of a token.
    """

    spans: tuple[tuple[int, int], ...]
    rows: Rows
    deep: bool
    ids: NDArray[np.int64]

    @classmethod
    def following(cls, start: int, rows: Rows) -> Given:
        """Rows from the position ``start`` on, where positions count on from those before."""
        places = np.arange(start, start + len(rows))
        return cls(((start, start + len(rows) - 1),), rows, False, _ids(rows, np.stack([places] * 3, axis=1)))

    def without_last(self) -> Given | None:
        """All but the last position; None if that leaves nothing."""
        if len(self.rows) == 1:
            return None
        *spans, (first, last) = self.spans
        shorter = (*spans, (first, last - 1)) if first < last else tuple(spans)
        return Given(shorter, self.rows[:-1], self.deep, self.ids[:-1])


@dataclass(frozen=True, slots=True)
class _Border:
    """Behind a piece: so many tokens, rotary positions' pieces and givens were before it, and the next rotary one."""

    tokens: int
    pieces: int
    given: int
    next: int


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
        self._borders = [_Border(0, 0, 0, 0)]

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, piece: Piece) -> None:
        if not len(piece):
            return
        positions = self._rotary(piece)
        given: list[Given] = []
        if piece.rows is not None:
            given = self._rows(piece, piece.rows, positions)
        elif piece.at is not None or piece.deepstack is not None:
            raise _invalid("a piece names rows and has none")
        tokens = self._tokens(piece)
        self.given += given
        self.tokens += tokens
        self._positions.append(positions)
        self._next = int(positions[:, -1].max()) + 1
        self._borders.append(_Border(len(self), len(self._positions), len(self.given), self._next))

    def cut(self, length: int) -> None:
        """Take back all behind so many positions, the border between two pieces."""
        if all(border.tokens != length for border in self._borders):
            raise _invalid(f"position {length} is no border between two pieces")
        while self._borders[-1].tokens != length:
            self._borders.pop()
        border = self._borders[-1]
        del self.tokens[border.tokens :], self._positions[border.pieces :], self.given[border.given :]
        self._next = border.next

    def spans(self, start: int) -> tuple[tuple[int, int], ...]:
        """First and last positions of those from ``start`` on, the border between two pieces, that were given as
        rows."""
        return tuple(span for given in self.given for span in given.spans if span[0] >= start)

    @property
    def ends_with_row(self) -> bool:
        return bool(self.given) and self.given[-1].spans[-1][1] == len(self.tokens) - 1

    def positions(self, said: int) -> NDArray[np.int64] | None:
        """Rotary positions ``[3, n + said]`` of the prompt and so many tokens behind it. None: those that the model
        counts by itself."""
        if not self.given:
            return None
        return np.concatenate([*self._positions, _counted(self._next, said)], axis=1)

    def _tokens(self, piece: Piece) -> list[int]:
        """The ids of a piece. One that holds the place of a row may be of another model's vocabulary: it becomes 0."""
        held: set[int] = set()
        if piece.rows is not None:
            held = set(range(len(piece)) if piece.at is None else piece.at.tolist())
        tokens = list(piece.tokens)
        for place, token in enumerate(tokens):
            if 0 <= token < self._limits.vocabulary:
                continue
            if place not in held:
                raise _invalid(f"there is no token {token} in a vocabulary of {self._limits.vocabulary}")
            tokens[place] = 0
        return tokens

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

    def _rows(self, piece: Piece, rows: Rows, positions: NDArray[np.int64]) -> list[Given]:
        width, layers = self._limits.width, self._limits.layers
        if width is None:
            raise _invalid("this model takes token ids alone")
        at = np.arange(len(piece)) if piece.at is None else piece.at
        if rows.shape != (len(at), width):
            raise _invalid(f"rows are [{len(at)}, {width}] here, not {list(rows.shape)}")
        if not len(at):
            return []
        if at[0] < 0 or at[-1] >= len(piece) or (np.diff(at) < 1).any():
            raise _invalid("the places of rows ascend within their piece")
        if piece.deepstack is not None:
            if piece.deepstack.shape != (layers, *rows.shape):
                raise _invalid(f"deepstack is {[layers, *rows.shape]} here, not {list(piece.deepstack.shape)}")
            rows = np.concatenate([rows, *piece.deepstack], axis=1)
        runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        start = len(self.tokens)
        spans = tuple((start + int(run[0]), start + int(run[-1])) for run in runs)
        return [Given(spans, rows, piece.deepstack is not None, _ids(rows, positions[:, at].T))]


def _ids(rows: Rows, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """``places``: rotary positions ``[m, 3]``. The ids mean something in this process alone."""
    contents = (_KEY + row.tobytes() + place.tobytes() for row, place in zip(rows, places, strict=True))
    # What dictionaries use. The functions of hashlib let another thread have the interpreter for each row.
    return NO_TOKEN + np.fromiter((hash(content) & _ID for content in contents), np.int64, len(rows))


def _counted(start: int, count: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(start, start + count), (3, count))


def _invalid(message: str) -> OmniError:
    return OmniError("invalid_value", message)
