"""A media track that plays in (virtual) real time, in frames of 20 ms, and tells what it has played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from voice_omni.audio.pcm import Samples

RATE = 24_000
FRAME = RATE // 50
_REPORT_FRAMES = 5


class Track:
    """A :class:`~voice_omni.session.track_speaker.SoundSink`."""

    sample_rate = RATE

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: Samples = np.zeros(0, np.float32)
        self._count = 0
        self._frames = 0
        self._ticking: asyncio.TimerHandle | None = None
        self._told: Callable[[int], None] = lambda samples: None
        self.frames: list[tuple[float, Samples]] = []
        """When each frame was played, and its sound."""
        self.flushes: list[float] = []
        self.most_queued = 0

    @property
    def heard(self) -> Samples:
        return np.concatenate([np.zeros(0, np.float32), *(samples for _, samples in self.frames)])

    @property
    def played(self) -> int:
        """Since the last flush."""
        return self._count

    def play(self, samples: Samples) -> None:
        self._queue = np.concatenate([self._queue, samples])
        self.most_queued = max(self.most_queued, len(self._queue))
        if self._ticking is None:
            self._frames = 0
            self._ticking = self._loop.call_later(0.02, self._tick)

    def flush(self) -> None:
        self.flushes.append(self._loop.time())
        self._queue = np.zeros(0, np.float32)
        self._count = 0

    def on_played(self, told: Callable[[int], None]) -> None:
        self._told = told

    def _tick(self) -> None:
        self._ticking = None
        frame, self._queue = self._queue[:FRAME], self._queue[FRAME:]
        if not len(frame):
            return
        self.frames.append((self._loop.time(), frame))
        self._count += len(frame)
        self._frames += 1
        if len(self._queue):
            self._ticking = self._loop.call_later(0.02, self._tick)
        if self._frames % _REPORT_FRAMES == 1 or not len(self._queue):
            self._told(self._count)
