"""Where the words are: which stretches of a stream of sound are worth recognising. Pure; knows levels only.

Everything here depends on the sound alone and not on how it was cut into chunks, so the same sound always gives the
same segments. Positions are frames of 10 ms from the stream's start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_omni.models.starter.listen_mel import HOP

QUIET_DB: Final = -60.0
"""Below it there is silence, whatever came before."""
ABOVE_NOISE_DB: Final = 8.0
BELOW_PEAK_DB: Final = 15.0
NOISE_RISE_DB: Final = 0.02
PEAK_FALL_DB: Final = 0.02

BEFORE: Final = 30
"""Frames of sound kept before the first voiced one: soft onsets."""
AFTER: Final = 5
"""Frames kept after the last voiced one: soft endings. As long must silence last before the words are worth a pass."""
SHORT: Final = 150
LONG: Final = 1500
LONGEST: Final = 2500
LONG_GAP: Final = 70
GAP: Final = 20
"""A pause of so many frames closes a segment: :data:`LONG_GAP` from :data:`SHORT` on, less the longer it is, down to
:data:`GAP` from :data:`LONG` on. The recogniser tends to stop listening at a long pause."""


@dataclass(frozen=True, slots=True)
class Segment:
    start: int
    end: int

    @property
    def frames(self) -> int:
        return self.end - self.start


def frame_levels(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """RMS level of each whole frame in dB relative to full scale; float32 ``[n // 160]``."""
    frames = samples[: len(samples) // HOP * HOP].reshape(-1, HOP)
    return np.asarray(10.0 * np.log10(np.mean(frames * frames, axis=1) + 1e-12), np.float32)


class Segmenter:
    """Follows the level of a stream. A segment begins shortly before the first voiced frame and is closed by a pause,
    the shorter the longer it has become, at the latest after twenty-five seconds at the quietest moment of its last
    third.

    A frame is voiced unless it is near the noise floor (the lowest level so far, slowly rising) and well below the peak
    (slowly falling). Loud noise counts as voice: what it says is for the recogniser to judge.
    """

    def __init__(self) -> None:
        self._frames = 0
        self._first: int | None = None
        self._last = 0
        self._open_from = 0
        self._noise = 0.0
        self._peak = QUIET_DB
        self._levels: deque[float] = deque(maxlen=LONGEST // 3)

    @property
    def oldest(self) -> int:
        """Sound before this frame is not needed any more."""
        if self._first is None:
            return max(self._open_from, self._frames - BEFORE)
        return self._start(self._first)

    @property
    def voiced(self) -> bool:
        """Whether the latest frame is."""
        return self._first is not None and self._last == self._frames

    @property
    def settled(self) -> bool:
        """Whether :meth:`tail` stays as it is until the next voiced frame."""
        return self._first is not None and self._frames - self._last >= AFTER

    def tail(self) -> Segment | None:
        """What is to be recognised if the sound ends here; None if nothing was voiced since the last closed segment."""
        if self._first is None:
            return None
        return Segment(self._start(self._first), min(self._frames, self._last + AFTER))

    def push(self, levels: Iterable[float]) -> list[Segment]:
        """Take the levels of the next frames in; the segments that they close."""
        closed = []
        for level in levels:
            voiced = self._is_voiced(level)
            self._levels.append(level)
            self._frames += 1
            if voiced:
                self._last = self._frames
                if self._first is None:
                    self._first = self._frames - 1
            if self._first is not None and (segment := self._closed(self._first)):
                closed.append(segment)
                self._open_from = segment.end
                # What was voiced after a forced cut belongs to the next segment.
                self._first = segment.end if self._last > segment.end else None
        return closed

    def _start(self, first: int) -> int:
        return max(self._open_from, first - BEFORE)

    def _is_voiced(self, level: float) -> bool:
        self._noise = level if self._frames == 0 else min(level, self._noise + NOISE_RISE_DB)
        self._peak = max(level, self._peak - PEAK_FALL_DB)
        near_noise = level < self._noise + ABOVE_NOISE_DB and level < self._peak - BELOW_PEAK_DB
        return level >= QUIET_DB and not near_noise

    def _closed(self, first: int) -> Segment | None:
        start = self._start(first)
        if self._frames - start >= LONGEST:
            quietest = int(np.argmin(np.convolve(self._levels, np.ones(AFTER), mode="valid")))
            return Segment(start, self._frames - len(self._levels) + quietest + AFTER // 2)
        if self._last - start >= SHORT and self._frames - self._last >= _gap_to_close(self._last - start):
            return Segment(start, self._last + AFTER)
        return None


def _gap_to_close(frames: int) -> float:
    return float(np.interp(frames, (SHORT, LONG), (LONG_GAP, GAP)))
