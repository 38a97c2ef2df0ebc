"""Sound that waits to be played, taken out frame by frame, and dropped without a click."""

from __future__ import annotations

from collections import deque

import numpy as np

from voice_omni.audio.pcm import Samples


class PlayoutQueue:
    """Float32 mono at one rate; counts are in samples."""

    def __init__(self, fade: int) -> None:
        """``fade``: how much of the sound that is dropped is still played, falling to silence."""
        self._chunks: deque[Samples] = deque()
        self._falling = np.linspace(1, 0, fade, endpoint=False, dtype=np.float32)
        self.queued = 0
        self.taken = 0
        """Samples taken since the beginning. Silence that filled up a frame does not count."""

    def push(self, samples: Samples) -> None:
        if len(samples):
            self._chunks.append(samples)
            self.queued += len(samples)

    def take(self, count: int) -> Samples | None:
        """The next ``count`` samples, filled up with silence; None when nothing waits."""
        if not self.queued:
            return None
        frame = np.zeros(count, np.float32)
        filled = 0
        while filled < count and self._chunks:
            chunk = self._chunks.popleft()
            part = chunk[: count - filled]
            frame[filled : filled + len(part)] = part
            filled += len(part)
            if len(part) < len(chunk):
                self._chunks.appendleft(chunk[len(part) :])
        self.queued -= filled
        self.taken += filled
        return frame

    def flush(self) -> int:
        """Drop what waits but for its fade; returns what ``taken`` will be after it."""
        tail = np.concatenate([*self._chunks, np.zeros(0, np.float32)])[: len(self._falling)]
        self._chunks.clear()
        self.queued = 0
        # Once more shortened, a fade goes on where it stood: what is queued then is a fade already.
        self.push(tail * self._falling[: len(tail)])
        return self.taken + self.queued
