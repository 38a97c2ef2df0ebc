"""What the talker reads of the thinker's prompt: the person's turns, and the header of the answer that is to come.

Pure and streaming: however the prompt is cut into pieces, the parts, joined, are the same. System, tool and earlier
assistant turns are left out; what remains is moved together, so that each turn begins where the one before ended.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Piece, Rows
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.wire import UserPart
from voice_omni.proto.errors import OmniError

Place = NDArray[np.float32]
"""One rotary position, ``[3]``."""


class _Turn(Enum):
    OTHER = auto()
    BEGINNING = auto()
    USER = auto()
    ASSISTANT = auto()


@dataclass(slots=True)
class _Part:
    """``media``: which of the given rows stand at the places ``at``."""

    tokens: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    media: list[int] = field(default_factory=list)


class TalkerView:
    """Reads one prompt."""

    def __init__(self, config: OmniConfig) -> None:
        self._config = config
        self._turn = _Turn.OTHER
        self._start: Place = np.zeros(3, np.float32)
        self._assistant: list[int] = []
        self._thinker_next = 0.0
        self._places = _Places(config)

    def fork(self) -> TalkerView:
        """The same prompt read so far, which may go on in another way."""
        twin = copy(self)
        twin._assistant = list(self._assistant)
        twin._places = copy(self._places)
        return twin

    def read(self, piece: Piece, hidden: Rows) -> UserPart | None:
        """The next piece; ``hidden``: float32 ``[m, width]``, the inner rows of its media positions. None if nothing of
        it is the person's."""
        count = len(piece)
        places = piece.positions
        if places is None:
            places = np.broadcast_to(self._thinker_next + np.arange(count, dtype=np.float32), (3, count))
        if count:
            self._thinker_next = float(places[:, -1].max()) + 1
        media: dict[int, int] = {}
        if piece.rows is not None:
            at = range(count) if piece.at is None else piece.at.tolist()
            media = dict(zip(at, range(len(hidden)), strict=True))
        part = _Part()
        for number, token in enumerate(piece.tokens):
            self._take(part, int(token), places[:, number], media.get(number))
        if not part.tokens:
            return None
        places = np.stack(part.places, axis=1)
        return UserPart(part.tokens, places, np.array(part.at, np.int64), hidden[part.media])

    def close(self) -> list[int]:
        """The tokens of the assistant's turn that the prompt ends with. Raises :class:`OmniError` ``invalid_value`` if
        it ends with another."""
        if self._turn is not _Turn.ASSISTANT:
            raise OmniError("invalid_value", "the prompt does not end with the answer's header", param="messages")
        return self._assistant

    def _take(self, part: _Part, token: int, place: Place, medium: int | None) -> None:
        if token == self._config.im_start_token_id:
            self._turn = _Turn.BEGINNING
            self._start = place
        elif self._turn is _Turn.BEGINNING:
            # Only this token tells whose turn has begun.
            self._turn = self._turn_of(token)
            if self._turn is _Turn.USER:
                self._places.begin()
                self._give(part, self._config.im_start_token_id, self._start, None)
                self._give(part, token, place, medium)
            self._assistant = [self._config.im_start_token_id, token]
        elif self._turn is _Turn.USER:
            self._give(part, token, place, medium)
        elif self._turn is _Turn.ASSISTANT:
            self._assistant.append(token)

    def _turn_of(self, role: int) -> _Turn:
        if role == self._config.user_token_id:
            return _Turn.USER
        return _Turn.ASSISTANT if role == self._config.assistant_token_id else _Turn.OTHER

    def _give(self, part: _Part, token: int, place: Place, medium: int | None) -> None:
        if medium is not None:
            part.at.append(len(part.tokens))
            part.media.append(medium)
        part.tokens.append(token)
        part.places.append(self._places.of(token, place))


class _Places:
    """From the thinker's rotary positions to the talker's.

    A turn keeps its shape and is moved. Only a video with its sound has another: its rows interleave in time for the
    thinker, while the talker counts them one by one.
    """

    def __init__(self, config: OmniConfig) -> None:
        self._ids = config.thinker
        self._next = 0.0
        self._offset: float | None = None
        self._counting = False
        self._before = -1

    def begin(self) -> None:
        """A turn begins, behind others that were left out."""
        self._offset = None

    def of(self, token: int, place: Place) -> Place:
        if self._offset is None:
            self._offset = float(place[0]) - self._next
        sounding = token == self._ids.audio_start_token_id and self._before == self._ids.vision_start_token_id
        self._counting = self._counting or sounding
        here = np.full(3, self._next, np.float32) if self._counting else (place - self._offset).astype(np.float32)
        if self._counting and token == self._ids.vision_end_token_id:
            self._counting = False
            self._offset = None
        self._next = float(here.max()) + 1
        self._before = token
        return here
