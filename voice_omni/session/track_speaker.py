"""A voice whose sound the transport plays out itself, so that every sample of it is accounted for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler
from voice_omni.client.interface import AudioDelta
from voice_omni.realtime.response import Response
from voice_omni.realtime.responses import Responses
from voice_omni.session.delivery import split
from voice_omni.session.fence import EpochFence
from voice_omni.session.options import SessionOptions

Playback = Literal["started", "stopped", "cleared"]

_REMEMBERED: Final = 4
"""Items that have been played and can still be an echo."""


class SoundSink(Protocol):
    """Plays sound out in real time, and tells how far it is."""

    @property
    def sample_rate(self) -> int:
        """Hz, of the samples that it takes."""
        ...

    def play(self, samples: Samples) -> None:
        """Queue float32 ``[samples]``."""
        ...

    def flush(self) -> None:
        """Drop what is queued: the listener hears nothing more of it."""
        ...

    def on_played(self, told: Callable[[int], None]) -> None:
        """Have ``told`` called now and then with the number of samples played since the last :meth:`flush`."""
        ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """Sound that waits here. ``epoch``: outside which it is not to be played."""

    response_id: str
    item_id: str
    samples: Samples
    epoch: int | None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Sound that the sink has: the samples from ``start`` to ``end`` since the last flush."""

    response_id: str
    item_id: str
    start: int
    end: int


class TrackSpeaker:
    """Sends sound to a sink. The sink is given little at a time: what waits here can be held and dropped at once.

    There is one track, so one answer is spoken after the other: the next one begins when the pipeline has made all
    sound of the one before.
    """

    def __init__(
        self,
        responses: Responses,
        sink: SoundSink,
        fence: EpochFence,
        options: SessionOptions,
        source_rate: int,
        clock: Callable[[], float],
        tell: Callable[[Playback, str], None],
    ) -> None:
        """``source_rate``: Hz, of the pipeline's sound. ``clock``: monotonic seconds.

        ``tell`` is called when playback of a response, by its id, starts, has come to its end or is cut short.
        """
        self._responses = responses
        self._sink = sink
        self._fence = fence
        self._source_rate = source_rate
        self._longest = max(1, options.delta_ms * source_rate // 1000)
        self._most = options.max_lead_ms * sink.sample_rate // 1000
        self._lead = options.track_lead_ms * sink.sample_rate // 1000
        self._clock = clock
        self._tell = tell
        self._resamplers: dict[str, StreamResampler] = {}
        self._waiting: deque[_Piece] = deque()
        self._stretches: deque[_Stretch] = deque()
        self._sent = 0
        self._played = 0
        self._reported = 0.0
        self._heard: dict[str, int] = {}  # samples played of each item of the response that is sounding
        self._recent: deque[tuple[str, float]] = deque(maxlen=_REMEMBERED)
        self._speaking: str | None = None  # the response whose sound is being made
        self._sounding: str | None = None  # the response whose sound is being played
        self._cut: set[str] = set()
        self._held = False
        self._changed = asyncio.Event()
        self.first_sound: float | None = None
        sink.on_played(self._on_played)

    @property
    def playing(self) -> bool:
        return self._unplayed > 0

    @property
    def remaining(self) -> float:
        return self._unplayed / self._sink.sample_rate

    def audible(self, since: float) -> set[str]:
        recent = {item_id for item_id, last in self._recent if last > since}
        return recent | {stretch.item_id for stretch in self._stretches if stretch.start < self._position()}

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        self._pump()

    async def speak(self, response: Response, delta: AudioDelta, epoch: int | None) -> None:
        for piece in split(delta, self._longest):
            await self._turn_to_speak(response.id, epoch)
            resampler = self._resamplers.get(response.id)
            if resampler is None:
                resampler = self._resamplers[response.id] = StreamResampler(self._source_rate, self._sink.sample_rate)
            self._responses.speak(response.id, b"", len(piece.samples), piece.marks)
            self._queue(response, resampler.push(piece.samples), epoch)

    def finish(self, response: Response, epoch: int | None) -> None:
        resampler = self._resamplers.get(response.id)
        if resampler is not None:
            self._queue(response, resampler.flush(), epoch)

    def forget(self, response_id: str) -> None:
        self._resamplers.pop(response_id, None)
        self._cut.discard(response_id)
        if self._speaking == response_id:
            self._speaking = None
        self._conclude()
        self._notify()

    def silence(self) -> dict[str, float]:
        position = self._position()
        cut = dict.fromkeys(each.item_id for each in self._stretches if each.end > position)
        cut |= dict.fromkeys(piece.item_id for piece in self._waiting)
        responses = dict.fromkeys(each.response_id for each in self._stretches if each.end > position)
        responses |= dict.fromkeys(piece.response_id for piece in self._waiting)
        for stretch in self._stretches:
            self._count(stretch.item_id, max(0, min(stretch.end, position) - stretch.start))
        if self._sounding is not None and self._sounding not in responses:
            # All that had been made of it has been played. It is cut nevertheless if more was to come.
            if self._sounding in self._resamplers:
                responses[self._sounding] = None
                cut |= dict.fromkeys(list(self._heard)[-1:])
            else:
                self._tell("stopped", self._sounding)
        self._cut |= responses.keys() & self._resamplers.keys()
        played_ms = {item_id: self._heard.get(item_id, 0) * 1000 / self._sink.sample_rate for item_id in cut}
        self._sink.flush()
        self._waiting.clear()
        self._stretches.clear()
        self._heard.clear()
        self._recent.clear()
        self._sent = self._played = 0
        self._sounding = self._speaking = None
        for response_id in responses:
            self._tell("cleared", response_id)
        self._notify()
        return played_ms

    @property
    def _unplayed(self) -> int:
        return sum(len(piece.samples) for piece in self._waiting) + self._sent - self._position()

    def _position(self) -> int:
        """How much has been played by now, as far as can be told between two reports."""
        if self._played == self._sent or not self._played:
            return self._played
        passed = int((self._clock() - self._reported) * self._sink.sample_rate)
        return min(self._sent, self._played + passed)

    async def _turn_to_speak(self, response_id: str, epoch: int | None) -> None:
        while self._wanted(response_id, epoch):
            if self._speaking in (None, response_id) and self._unplayed < self._most:
                self._speaking = response_id
                return
            await self._changed.wait()

    def _wanted(self, response_id: str, epoch: int | None) -> bool:
        return self._fence.current(epoch) and response_id not in self._cut

    def _queue(self, response: Response, samples: Samples, epoch: int | None) -> None:
        if response.item is not None and len(samples) and self._wanted(response.id, epoch):
            self._waiting.append(_Piece(response.id, response.item.id, samples, epoch))
            self._pump()

    def _pump(self) -> None:
        """Give the sink what it needs: in any case so much that nothing here can make it run dry."""
        while self._waiting and not self._held and self._sent - self._played < self._lead:
            piece = self._waiting.popleft()
            if not self._fence.current(piece.epoch):
                continue
            self._sink.play(piece.samples)
            self.first_sound = self._clock() if self.first_sound is None else self.first_sound
            end = self._sent + len(piece.samples)
            self._stretches.append(_Stretch(piece.response_id, piece.item_id, self._sent, end))
            self._sent = end

    def _on_played(self, samples: int) -> None:
        self._played, self._reported = min(samples, self._sent), self._clock()
        while self._stretches and self._stretches[0].start < self._played:
            stretch = self._stretches[0]
            self._begin(stretch.response_id)
            if stretch.end > self._played:
                break
            self._stretches.popleft()
            self._count(stretch.item_id, stretch.end - stretch.start)
            self._recent.append((stretch.item_id, self._reported))
        self._pump()
        self._conclude()
        self._notify()

    def _begin(self, response_id: str) -> None:
        if self._sounding != response_id:
            self._conclude()
            self._sounding = response_id
            self._tell("started", response_id)

    def _conclude(self) -> None:
        """Tell that a response has been played to its end, if all its sound has been made, and played."""
        response_id = self._sounding
        if response_id is None or response_id in self._resamplers:
            return
        left = {stretch.response_id for stretch in self._stretches} | {piece.response_id for piece in self._waiting}
        if response_id not in left:
            self._sounding = None
            self._heard.clear()
            self._tell("stopped", response_id)

    def _count(self, item_id: str, samples: int) -> None:
        self._heard[item_id] = self._heard.get(item_id, 0) + samples

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
