"""What a listener hears of the answers: a player without a jitter buffer, as a model. Pure; the clock is passed in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voice_omni.audio.pcm import Samples
from voice_omni.cli.realtime_client import RATE

_AUDIBLE = 0.01
"""-40 dBFS: below it, the leading silence of an answer is not counted as sound."""


@dataclass(slots=True)
class _Piece:
    item_id: str
    starts: float
    samples: Samples

    @property
    def ends(self) -> float:
        return self.starts + len(self.samples) / RATE


class Playback:
    """Sound of the answers on the listener's clock (seconds, monotonic): each piece plays when the one before it
    ends, or at once if that was long ago."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    def push(self, item_id: str, samples: Samples, now: float) -> None:
        """A piece of an item's sound has arrived: float32 ``[samples]`` at 24 kHz."""
        if len(samples):
            self._pieces.append(_Piece(item_id, max(now, self.ends), samples))

    @property
    def ends(self) -> float:
        """When all that has arrived is played; minus infinity if nothing has."""
        return self._pieces[-1].ends if self._pieces else float("-inf")

    def playing(self, now: float) -> str | None:
        """The item that is heard at this moment."""
        return next((piece.item_id for piece in self._pieces if piece.starts <= now < piece.ends), None)

    def clear(self, now: float) -> None:
        """Drop what is not played yet."""
        for piece in self._pieces:
            played = max(0, round((now - piece.starts) * RATE))
            piece.samples = piece.samples[:played]
        self._pieces = [piece for piece in self._pieces if len(piece.samples)]

    def played_ms(self, item_id: str, now: float) -> int:
        """How much of an item has been heard, milliseconds."""
        played = (min(now, piece.ends) - piece.starts for piece in self._pieces if piece.item_id == item_id)
        return int(sum(max(0.0, seconds) for seconds in played) * 1000)

    def first_audible(self, item_id: str) -> float | None:
        """When the item's first sample above -40 dBFS is heard."""
        for piece in self._pieces:
            if piece.item_id == item_id:
                loud = np.flatnonzero(np.abs(piece.samples) > _AUDIBLE)
                if len(loud):
                    return piece.starts + int(loud[0]) / RATE
        return None

    def heard(self) -> Samples:
        """Everything that was heard or will be, without the pauses: float32 ``[samples]`` at 24 kHz."""
        pieces = [piece.samples for piece in self._pieces]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
