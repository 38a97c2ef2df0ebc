"""Scheduler for streaming vocoders: state for each stream, first chunks first, many streams in one batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from voice_omni.model_runner.interface import Emit, Interruptible, Outcome, VocoderRunner
from voice_omni.proto.payload import StagePayload
from voice_omni.proto.vocabulary import AUDIO
from voice_omni.scheduling.base import BaseScheduler, Slot
from voice_omni.scheduling.interface import Outbox
from voice_omni.scheduling.options import Code2WavOptions

_MOMENT_S: Final = 1e-6
"""What is due sooner is due now: a clock cannot be relied on to advance by less."""


@dataclass(slots=True)
class _Stream:
    """A stream's model state and its place in time: ``began`` is when its first chunk was sent."""

    model: Any
    began: float | None = None
    sent_samples: int = 0


class Code2WavScheduler(BaseScheduler):
    """Chooses which streams to decode and how far.

    The first chunk is small, so that sound begins at once. Later chunks may be as long as a share of the lead, the
    sound that has been sent but cannot have been heard yet: larger chunks decode more cheaply, and a stream with a
    lead can wait for them. Streams without a first chunk go before all others, then those with the least lead.
    """

    def __init__(
        self,
        runner: VocoderRunner[Any],
        options: Code2WavOptions,
        outbox: Outbox,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(outbox, clock)
        self._runner = runner
        self._options = options
        self._frame_seconds = runner.frame_samples / runner.sample_rate

    def _open(self, payload: StagePayload) -> _Stream:
        return _Stream(self._runner.open(payload))

    def _close(self, state: _Stream) -> None:
        self._runner.close(state.model)

    def _interrupt(self) -> None:
        if isinstance(self._runner, Interruptible):
            self._runner.interrupt()

    def _touched(self, slot: Slot) -> None:
        """Take in as many frames as the next chunk needs; the rest stays uncredited, which holds the talker back."""
        taken = []
        try:
            while slot.chunks and self._runner.ready(slot.state.model, False) < self._options.max_frames:
                chunk = slot.chunks.popleft()
                self._runner.push(slot.state.model, chunk)
                taken.append(chunk)
        except Exception as error:  # noqa: BLE001 - one stream's bad frames are its own
            self._fail(slot, error)
            return
        self._consumed(slot, taken)

    def _lead(self, stream: _Stream) -> float:
        if stream.began is None:
            return 0.0
        return stream.sent_samples / self._runner.sample_rate - (self._clock() - stream.began)

    def _wanted(self, stream: _Stream) -> int:
        """Frames of the stream's next chunk."""
        grown = int(self._lead(stream) * self._options.growth / self._frame_seconds)
        return min(max(grown, self._options.first_frames), self._options.max_frames)

    def _due(self, slot: Slot) -> tuple[float, int] | None:
        """When the slot's next chunk is due, in seconds from now, and its frames; None while it cannot go on.

        What is ready but less than wanted waits for more as long as the lead is longer than one first chunk.
        """
        stream: _Stream = slot.state
        if slot.blocked or slot.result is not None:
            return None
        ended = slot.ended and not slot.chunks
        ready = self._runner.ready(stream.model, ended)
        if ready == 0:
            return (0.0, 0) if ended else None
        wanted = self._wanted(stream)
        if ready >= wanted or ended or stream.began is None:
            return 0.0, min(ready, wanted)
        wait = self._lead(stream) - self._options.first_frames * self._frame_seconds
        return (wait if wait > _MOMENT_S else 0.0), ready

    def _moments(self) -> list[tuple[Slot, float, int]]:
        """The slots that can go on, with what :meth:`_due` says of each."""
        moments = []
        for slot in list(self._slots.values()):
            try:
                moment = self._due(slot)
            except Exception as error:  # noqa: BLE001 - one stream's failure is its own
                self._fail(slot, error)
                continue
            if moment is not None:
                moments.append((slot, *moment))
        return moments

    def _patience(self) -> float | None:
        return min((wait for _, wait, _ in self._moments()), default=None)

    def _work(self) -> None:
        due = [(slot, frames) for slot, wait, frames in self._moments() if wait == 0]
        for slot, frames in due:
            if frames == 0:
                self._finish(slot)
        streams = [(slot, frames) for slot, frames in due if frames]
        first = [(slot, frames) for slot, frames in streams if slot.state.began is None]
        batch = (first or sorted(streams, key=lambda item: self._lead(item[0].state)))[: self._options.max_batch]
        if batch:
            self._decode(batch)

    def _finish(self, slot: Slot) -> None:
        try:
            outcome = Outcome(result=self._runner.result(slot.state.model))
        except Exception as error:  # noqa: BLE001 - one stream's failure is its own
            outcome = Outcome(error=error)
        self._apply(slot, outcome)

    def _decode(self, batch: list[tuple[Slot, int]]) -> None:
        try:
            with self._computing(slot.request_id for slot, _ in batch):
                outputs = self._runner.decode([(slot.state.model, frames) for slot, frames in batch])
            decoded = list(zip(batch, outputs, strict=True))
        except Exception as error:  # noqa: BLE001 - the failure belongs to these streams only
            for slot, _ in batch:
                self._fail(slot, error)
            return
        for (slot, _), output in decoded:
            if isinstance(output, Exception):
                self._fail(slot, output)
                continue
            stream: _Stream = slot.state
            if stream.began is None:
                stream.began = self._clock()
            stream.sent_samples += len(output[AUDIO])
            self._apply(slot, Outcome(emits=[Emit(output)]))
