"""An answer's way to the listener, at the pace at which it is played, and how much of it was heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from voice_omni.audio.pacing import PlayoutClock
from voice_omni.client.interface import AudioDelta
from voice_omni.realtime.response import Response
from voice_omni.realtime.responses import Responses
from voice_omni.session.delivery import SpeechEncoder, split
from voice_omni.session.ledger import PlaybackLedger
from voice_omni.session.options import SessionOptions
from voice_omni.session.outbox import Outbox


class Speaker(Protocol):
    """One session's voice."""

    @property
    def playing(self) -> bool: ...

    @property
    def remaining(self) -> float:
        """Seconds of sound that are still to be played."""
        ...

    @property
    def first_sound(self) -> float | None:
        """When the session's first sound was sent."""
        ...

    def audible(self, since: float) -> set[str]:
        """The items of which something is being played, or was after ``since``."""
        ...

    def hold(self) -> None:
        """Send no more for the moment; what has been sent plays on."""
        ...

    def release(self) -> None: ...

    async def speak(self, response: Response, delta: AudioDelta, epoch: int | None) -> None:
        """Send ``delta``, waiting as long as there is no need of it yet."""
        ...

    def finish(self, response: Response, epoch: int | None) -> None:
        """The answer is over, and its sound complete."""
        ...

    def forget(self, response_id: str) -> None:
        """No more sound of the answer will come."""
        ...

    def silence(self) -> dict[str, float]:
        """Playback stops now. Returns the milliseconds heard of each item that was cut short."""
        ...


class EventSpeaker:
    """Sends sound as events, to a client that plays it out.

    A client's playback cannot be seen from here. It is taken to play without a break what it was sent, so much ahead
    of it as ``max_lead_ms`` is sent and no more; what is not sent stays in the pipeline, which waits.
    """

    def __init__(
        self,
        responses: Responses,
        outbox: Outbox,
        options: SessionOptions,
        source_rate: int,
        clock: Callable[[], float],
    ) -> None:
        """``source_rate``: Hz, of the pipeline's sound. ``clock``: monotonic seconds."""
        self._responses = responses
        self._outbox = outbox
        self._rate = source_rate
        self._longest = max(1, options.delta_ms * source_rate // 1000)
        self._clock = clock
        self._playout = PlayoutClock(options.max_lead_ms / 1000)
        self._ledger = PlaybackLedger()
        self._encoders: dict[str, SpeechEncoder] = {}
        self._free = asyncio.Event()
        self._free.set()
        self.first_sound: float | None = None

    @property
    def playing(self) -> bool:
        return self._playout.playing(self._clock())

    @property
    def remaining(self) -> float:
        return self._playout.remaining(self._clock())

    def audible(self, since: float) -> set[str]:
        return self._ledger.audible(since, self._clock())

    def hold(self) -> None:
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    async def speak(self, response: Response, delta: AudioDelta, epoch: int | None) -> None:
        """Waits as long as the client is ahead of its playback or slow to read."""
        for piece in split(delta, self._longest):
            await self._turn_to_send()
            encoder = self._encoders.setdefault(response.id, SpeechEncoder(self._rate, response.settings.output_format))
            self._send(response, encoder.push(piece.samples), len(piece.samples), piece.marks, epoch)

    def finish(self, response: Response, epoch: int | None) -> None:
        """What the resampler held back is still to be sent."""
        encoder = self._encoders.pop(response.id, None)
        if encoder is not None and (rest := encoder.flush()):
            self._send(response, rest, 0, (), epoch)

    def forget(self, response_id: str) -> None:
        self._encoders.pop(response_id, None)

    def silence(self) -> dict[str, float]:
        now = self._clock()
        self._playout.clear(now)
        return self._ledger.cut(now)

    async def _turn_to_send(self) -> None:
        while True:
            await self._free.wait()
            await self._outbox.room()
            now = self._clock()
            due = self._playout.next_send(now)
            if due <= now and self._free.is_set():
                return
            await asyncio.sleep(due - now)

    def _send(
        self, response: Response, data: bytes, samples: int, marks: tuple[tuple[int, str], ...], epoch: int | None
    ) -> None:
        self._outbox.put(self._responses.speak(response.id, data, samples, marks), epoch)
        if response.item is not None and samples:
            now = self._clock()
            self.first_sound = now if self.first_sound is None else self.first_sound
            starts, ends = self._playout.sent(samples / self._rate, now)
            self._ledger.sent(response.item.id, starts, ends, now)
