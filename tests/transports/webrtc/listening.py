"""What a test hears of a peer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np

from tests.support.patience import PATIENCE_S
from voice_omni.audio.pcm import Samples
from voice_omni.transports.webrtc.peer_interface import CloseReason, ReceivedSound


@dataclass
class Listening:
    """A :class:`PeerListener` that remembers, and can be waited for."""

    messages: list[str] = field(default_factory=list)
    sounds: list[ReceivedSound] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    reason: CloseReason | None = None
    openings: int = 0

    def __post_init__(self) -> None:
        self._changed = asyncio.Event()

    @property
    def samples(self) -> Samples:
        return np.concatenate([*(sound.samples for sound in self.sounds), np.zeros(0, np.float32)])

    def opened(self) -> None:
        self.openings += 1
        self._changed.set()

    def message(self, text: str) -> None:
        self.messages.append(text)
        self._changed.set()

    def audio(self, sound: ReceivedSound) -> None:
        self.sounds.append(sound)
        self._changed.set()

    def played(self, total_samples: int) -> None:
        self.totals.append(total_samples)
        self._changed.set()

    def closed(self, reason: CloseReason) -> None:
        assert self.reason is None, "closed twice"
        self.reason = reason
        self._changed.set()

    async def until(self, condition: object, seconds: float = PATIENCE_S) -> None:
        """Wait until ``condition()`` holds."""
        assert callable(condition)
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
