"""One turn's sound, kept whole, so that a reply can be opened on it again from its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler


class Utterance:
    """Grows while a person speaks; any number of readers follow it, each at its own pace."""

    def __init__(self, utterance_id: str, sample_rate: int) -> None:
        self.id = utterance_id
        self.sample_rate = sample_rate
        self.samples = 0
        self._pieces: list[Samples] = []
        self._grown = asyncio.Event()

    @property
    def seconds(self) -> float:
        return self.samples / self.sample_rate

    def append(self, samples: Samples) -> None:
        if len(samples):
            self._pieces.append(samples)
            self.samples += len(samples)
            self._wake()

    def append_all(self, samples: Samples, sample_rate: int) -> None:
        """Sound at another rate, which is all that there will be of it."""
        resampler = StreamResampler(sample_rate, self.sample_rate)
        self.append(resampler.push(samples))
        self.append(resampler.flush())

    def latest(self, utterance_id: str, seconds: float) -> Utterance:
        """Another one, which begins with the end of this one: whole pieces that last ``seconds`` at most."""
        kept: list[Samples] = []
        room = int(seconds * self.sample_rate)
        for piece in reversed(self._pieces):
            room -= len(piece)
            if room < 0:
                break
            kept.append(piece)
        following = Utterance(utterance_id, self.sample_rate)
        for piece in reversed(kept):
            following.append(piece)
        return following

    def reader(self) -> UtteranceReader:
        return UtteranceReader(self)

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class UtteranceReader:
    """Yields the sound from the beginning, then what is added, until :meth:`end` has been called."""

    def __init__(self, utterance: Utterance) -> None:
        self._utterance = utterance
        self._ended_at: int | None = None

    @property
    def ended(self) -> bool:
        return self._ended_at is not None

    def end(self) -> None:
        """What has been said by now is all that this reader will see."""
        if self._ended_at is None:
            self._ended_at = len(self._utterance._pieces)
            self._utterance._wake()

    async def __aiter__(self) -> AsyncIterator[Samples]:
        position = 0
        while True:
            pieces = self._utterance._pieces
            end = len(pieces) if self._ended_at is None else self._ended_at
            if position < end:
                position += 1
                yield pieces[position - 1]
            elif self._ended_at is not None:
                return
            else:
                await self._utterance._grown.wait()
