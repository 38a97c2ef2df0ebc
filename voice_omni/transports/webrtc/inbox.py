"""What has come from a caller and waits for the session: messages and sound in order, within bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import numpy as np

from voice_omni.audio.pcm import Samples

MOST_SOUND_S: Final = 10.0
"""A session that is so far behind is told of the rest as silence, so that its clock is right again."""
MOST_TEXT: Final = 4 * 1024 * 1024
"""Characters of messages. A caller who sends faster than a session can work is cut off."""


class Inbox:
    """The timeline of the sound is exact whatever is lost: a gap in the positions is silence of the same length."""

    def __init__(self, sample_rate: int) -> None:
        """``sample_rate``: Hz, of the sound."""
        self._most = int(MOST_SOUND_S * sample_rate)
        self._longest = sample_rate // 5
        self._waiting: deque[str | tuple[int, Samples]] = deque()
        self._samples = 0
        self._characters = 0
        self._due: int | None = None  # the position at which the next sound that is handed over begins
        self._arrived = asyncio.Event()

    def put_message(self, text: str) -> bool:
        """Whether there was room for it."""
        if self._characters + len(text) > MOST_TEXT:
            return False
        self._characters += len(text)
        self._put(text)
        return True

    def put_sound(self, position: int, samples: Samples) -> None:
        """float32 ``[n]``; ``position``: of its first sample on the caller's timeline."""
        self._due = position if self._due is None else self._due
        if self._samples + len(samples) <= self._most:
            self._samples += len(samples)
            self._put((position, samples))

    async def get(self) -> str | Samples:
        """The next message, or the next sound: at most 200 ms of silence at a time where some is missing."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        first = self._waiting[0]
        if isinstance(first, str):
            self._waiting.popleft()
            self._characters -= len(first)
            return first
        position, samples = first
        due = position if self._due is None else self._due
        if position > due:
            missing = min(position - due, self._longest)
            self._due = due + missing
            return np.zeros(missing, np.float32)
        self._waiting.popleft()
        self._samples -= len(samples)
        self._due = position + len(samples)
        return samples

    def _put(self, entry: str | tuple[int, Samples]) -> None:
        self._waiting.append(entry)
        self._arrived.set()
