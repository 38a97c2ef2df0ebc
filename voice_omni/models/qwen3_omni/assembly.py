"""The thinker's prompt as it comes together: text from preprocessing, rows from the encoders. Pure.

A prompt is a sequence of *segments*: text, the places of a medium whose size is known, and at most one *live* sound
that grows while somebody speaks. Segments come from preprocessing, in order; rows come from the encoders at any time
and in any order among media. :meth:`Assembly.ready` gives the prompt in reading order, as far as it is known.

Later sound can change rows of a live sound that were given before: then what was given from there on is given again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Piece, Rows
from voice_omni.models.qwen3_omni.wire import ENDED, LIVE, PROMPT, ROWS
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Consecutive positions of a prompt: ``tokens`` [n] at rotary ``positions``, float32 ``[3, n]``.

    ``medium``: the number of the medium whose places they are, None for text. ``heard``, ``seen``: int64, the places in
    the segment that take rows of the audio tower and of the vision tower. A live sound (:data:`~.wire.LIVE`) has one
    token and one position, which stand for each row in turn; what follows is placed as if it had no row.
    """

    tokens: list[int]
    positions: Any
    medium: int | None = None
    heard: Any = None
    seen: Any = None


@dataclass(slots=True)
class _Rows:
    """Of one medium, as they have come."""

    heard: list[Rows] = field(default_factory=list)
    seen: list[Rows] = field(default_factory=list)
    deepstack: list[Rows] = field(default_factory=list)
    ended: bool = False


@dataclass(frozen=True, slots=True)
class _Cursor:
    """A place in the prompt: position ``at`` is number ``offset`` of segment ``segment``."""

    at: int = 0
    segment: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """``pieces`` follow position ``start``. ``kept``: so many positions that were given stay, those behind do not; None
    if all stay."""

    start: int
    pieces: list[Piece]
    kept: int | None = None


class Assembly:
    """One request's prompt. ``complete``: all of it has been given."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._whole = False
        self._media: dict[int, _Rows] = {}
        self._cursor = _Cursor()
        self._given: list[_Cursor] = []
        self._void: int | None = None

    @property
    def complete(self) -> bool:
        return self._whole and self._cursor.segment == len(self._segments)

    def take(self, data: Data) -> None:
        """A chunk from preprocessing or from an encoder."""
        if (prompt := data.get(PROMPT)) is not None:
            self._segments += [Segment(**segment) for segment in prompt]
            self._whole = bool(data.get(ENDED, False))
        if (rows := data.get(ROWS)) is not None:
            self._take_rows(**rows)

    def ready(self) -> Ready:
        """What can be read now and was not given before."""
        kept, self._void = self._void, None
        start = self._cursor
        parts: list[Piece] = []
        while self._cursor.segment < len(self._segments):
            part, whole = self._part(self._segments[self._cursor.segment])
            if part is not None:
                parts.append(part)
            self._advance(0 if part is None else len(part), whole)
            if not whole:
                break
        if parts:
            self._given.append(start)
        return Ready(start.at, [_joined(parts)] if parts else [], kept)

    def _advance(self, count: int, whole: bool) -> None:
        at, segment, offset = self._cursor.at + count, self._cursor.segment, self._cursor.offset + count
        self._cursor = _Cursor(at, segment + 1, 0) if whole else _Cursor(at, segment, offset)

    def _take_rows(
        self,
        medium: int,
        heard: Rows | None = None,
        seen: Rows | None = None,
        deepstack: Rows | None = None,
        first: int | None = None,
        ended: bool = False,
    ) -> None:
        rows = self._media.setdefault(medium, _Rows())
        if heard is not None:
            if first is not None and first < len(rows.heard):
                if medium == LIVE:
                    self._take_back(first)
                del rows.heard[first:]
            rows.heard += list(heard)
        if seen is not None:
            rows.seen += list(seen)
        if deepstack is not None:
            rows.deepstack += list(deepstack.swapaxes(0, 1))
        rows.ended = rows.ended or ended

    def _take_back(self, row: int) -> None:
        """Rows of the live sound from ``row`` on will come anew: go back to the piece that held it, if it was given."""
        live = self._live()
        if live is None:
            return
        place = self._start_of(live) + row
        while self._given and self._cursor.at > place:
            self._cursor = self._given.pop()
            self._void = self._cursor.at

    def _live(self) -> int | None:
        numbers = (number for number, segment in enumerate(self._segments) if segment.medium == LIVE)
        return next(numbers, None)

    def _start_of(self, segment: int) -> int:
        """Where a segment begins; only that of the live sound is not behind it."""
        return sum(len(each.tokens) for each in self._segments[:segment])

    def _part(self, segment: Segment) -> tuple[Piece | None, bool]:
        """What is known of a segment from the cursor on, and whether that is all of it."""
        if segment.medium is None:
            return Piece(segment.tokens, positions=segment.positions + self._shift()), True
        rows = self._media.get(segment.medium, _Rows())
        if segment.medium == LIVE:
            return self._live_part(segment, rows)
        heard = segment.heard if segment.heard is not None else np.zeros(0, np.int64)
        seen = segment.seen if segment.seen is not None else np.zeros(0, np.int64)
        if len(rows.heard) > len(heard) or len(rows.seen) > len(seen):
            raise OmniError("internal_error", "an encoder gave more rows than the prompt has places for")
        if len(rows.heard) < len(heard) or len(rows.seen) < len(seen):
            return None, False
        return _medium(segment, heard, seen, rows, segment.positions + self._shift()), True

    def _live_part(self, segment: Segment, rows: _Rows) -> tuple[Piece | None, bool]:
        offset, count = self._cursor.offset, len(rows.heard) - self._cursor.offset
        if count == 0:
            return None, rows.ended
        positions = segment.positions + np.arange(offset, offset + count, dtype=np.float32)
        tokens = segment.tokens * count
        return Piece(tokens, np.stack(rows.heard[offset:]), np.arange(count), positions=positions), rows.ended

    def _shift(self) -> np.float32:
        """By how much the live sound moves what follows it."""
        live = self._live()
        if live is None or self._cursor.segment <= live:
            return np.float32(0)
        return np.float32(len(self._media[LIVE].heard))


def _medium(segment: Segment, heard: NDArray[np.int64], seen: NDArray[np.int64], rows: _Rows, positions: Rows) -> Piece:
    at = np.sort(np.concatenate((heard, seen)))
    width = len((rows.heard or rows.seen)[0])
    filled = np.zeros((len(segment.tokens), width), np.float32)
    for places, given in ((heard, rows.heard), (seen, rows.seen)):
        if given:
            filled[places] = np.stack(given)
    deepstack: Rows | None = None
    if rows.deepstack:
        deep = np.stack(rows.deepstack, axis=1)
        spread = np.zeros((len(deep), *filled.shape), np.float32)
        spread[:, seen] = deep
        deepstack = spread[:, at]
    return Piece(segment.tokens, filled[at], at, deepstack, positions)


def _joined(parts: list[Piece]) -> Piece:
    """Consecutive pieces as one, so that they are computed together."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *map(len, parts)])
    with_rows = [(int(start), part, part.rows, part.at) for start, part in zip(starts, parts, strict=False)]
    given = [(start, part, rows, at) for start, part, rows, at in with_rows if rows is not None and at is not None]
    tokens = [token for part in parts for token in part.tokens]
    positions = np.concatenate([part.positions for part in parts if part.positions is not None], axis=1)
    if not given:
        return Piece(tokens, positions=positions)
    layers = max((len(part.deepstack) for _, part, _, _ in given if part.deepstack is not None), default=0)
    deepstack: Rows | None = None
    if layers:
        deepstack = np.concatenate(
            [
                part.deepstack if part.deepstack is not None else np.zeros((layers, *rows.shape), np.float32)
                for _, part, rows, _ in given
            ],
            axis=1,
        )
    return Piece(
        tokens,
        np.concatenate([rows for _, _, rows, _ in given]),
        np.concatenate([at + start for start, _, _, at in given]),
        deepstack,
        positions,
    )
