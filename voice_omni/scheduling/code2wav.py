"""Scheduler for streaming vocoders: state for each stream, first chunks first, many streams in one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from voice_omni.model_runner.interface import (
    Emit,
    Interruptible,
    Outcome,
    Submission,
    SubmittingVocoder,
    VocoderRunner,
)
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import AUDIO
from voice_omni.scheduling.base import MOMENT_S, BaseScheduler, Slot
from voice_omni.scheduling.interface import Outbox
from voice_omni.scheduling.options import Code2WavOptions
from voice_omni.scheduling.playback import Playback


@dataclass(slots=True)
class _Stream:
    """A stream's model state and what has been sent of it. ``decoding``: a batch with frames of it has been begun and
    not collected."""

    model: Any
    playback: Playback = field(default_factory=Playback)
    decoding: bool = False


@dataclass(frozen=True, slots=True)
class _Begun:
    """A batch that is being decoded."""

    slots: list[Slot]
    submission: Submission


@dataclass(frozen=True, slots=True)
class _Decoded:
    """What a runner gives that decodes while it is called; a :class:`~.Submission`."""

    outputs: Sequence[Data | Exception]

    def done(self) -> bool:
        return True

    def collect(self) -> Sequence[Data | Exception]:
        return self.outputs


class Code2WavScheduler(BaseScheduler):
    """Chooses which streams to decode and how far.

    The first chunk is small, so that sound begins at once. Later chunks may be as long as a share of the lead, the
    sound that has been sent but cannot have been heard yet: larger chunks decode more cheaply, and a stream with a
    lead can wait for them. Streams without a first chunk go before all others, then those with the least lead. As all
    streams of a batch take as long as its longest, those with longer chunks wait for the next batch where they would
    leave more than half of it empty.

    With a runner whose device computes by itself, the next batch is begun before the outputs of the one before are
    collected; but only with streams that cannot wait, so that a first chunk never stands behind two batches for the
    sake of streams that could.
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
        self._submitting = runner if isinstance(runner, SubmittingVocoder) else None
        self._begun: _Begun | None = None
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
        return stream.playback.lead(self._clock())

    def _wanted(self, stream: _Stream) -> int:
        """Frames of the stream's next chunk."""
        grown = int(self._lead(stream) * self._options.growth / self._frame_seconds)
        return min(max(grown, self._options.first_frames), self._options.max_frames)

    def _due(self, slot: Slot) -> tuple[float, int] | None:
        """When the slot's next chunk is due, in seconds from now, and its frames; None while it cannot go on.

        What is ready but less than wanted waits for more as long as the lead is longer than one first chunk.
        """
        stream: _Stream = slot.state
        if slot.blocked or slot.result is not None or stream.decoding:
            return None
        ended = slot.ended and not slot.chunks
        ready = self._runner.ready(stream.model, ended)
        if ready == 0:
            return (0.0, 0) if ended else None
        wanted = self._wanted(stream)
        if stream.playback.began is None:
            return 0.0, min(ready, wanted)
        wait = self._lead(stream) - self._options.first_frames * self._frame_seconds
        if wait <= MOMENT_S or (self._begun is None and (ready >= wanted or ended)):
            wait = 0.0
        return wait, min(ready, wanted)

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
        if self._begun is not None:
            return 0
        return min((wait for _, wait, _ in self._moments()), default=None)

    def _work(self) -> None:
        due = [(slot, frames) for slot, wait, frames in self._moments() if wait == 0]
        for slot, frames in due:
            if frames == 0:
                self._finish(slot)
        batch = self._chosen([(slot, frames) for slot, frames in due if frames])
        before, self._begun = self._begun, self._begin(batch) if batch else None
        if before is not None:
            self._collect(before)
        if self._begun is not None and self._begun.submission.done():
            begun, self._begun = self._begun, None
            self._collect(begun)

    def _chosen(self, due: list[tuple[Slot, int]]) -> list[tuple[Slot, int]]:
        """The streams of the next batch, and how many frames of each."""
        first = [(slot, frames) for slot, frames in due if slot.state.playback.began is None]
        ordered = first or sorted(due, key=lambda item: self._lead(item[0].state))
        batch: list[tuple[Slot, int]] = []
        longest = frames_in_all = 0
        for slot, frames in ordered[: self._options.max_batch]:
            longest, frames_in_all = max(longest, frames), frames_in_all + frames
            size = longest * (len(batch) + 1)
            if batch and (size > self._options.max_batch_frames or size > 2 * frames_in_all):
                break
            batch.append((slot, frames))
        return batch

    def _finish(self, slot: Slot) -> None:
        try:
            outcome = Outcome(result=self._runner.result(slot.state.model))
        except Exception as error:  # noqa: BLE001 - one stream's failure is its own
            outcome = Outcome(error=error)
        self._apply(slot, outcome)

    def _begin(self, batch: list[tuple[Slot, int]]) -> _Begun | None:
        pieces = [(slot.state.model, frames) for slot, frames in batch]
        slots = [slot for slot, _ in batch]
        try:
            with self._computing(slot.request_id for slot in slots):
                if self._submitting is not None:
                    submission = self._submitting.submit(pieces)
                else:
                    submission = _Decoded(self._runner.decode(pieces))
        except Exception as error:  # noqa: BLE001 - the failure belongs to these streams only
            for slot in slots:
                self._fail(slot, error)
            return None
        for slot in slots:
            slot.state.decoding = True
        return _Begun(slots, submission)

    def _collect(self, begun: _Begun) -> None:
        # Some may have been aborted since.
        wanted = [self._slots.get(slot.request_id) is slot for slot in begun.slots]
        try:
            decoded = list(zip(begun.slots, wanted, begun.submission.collect(), strict=True))
        except Exception as error:  # noqa: BLE001 - the failure belongs to these streams only
            for slot, still_wanted in zip(begun.slots, wanted, strict=True):
                if still_wanted:
                    self._fail(slot, error)
            return
        for slot, still_wanted, output in decoded:
            if still_wanted:
                self._deliver(slot, output)

    def _deliver(self, slot: Slot, output: Data | Exception) -> None:
        if isinstance(output, Exception):
            self._fail(slot, output)
            return
        stream: _Stream = slot.state
        stream.decoding = False
        stream.playback.send(len(output[AUDIO]) / self._runner.sample_rate, self._clock())
        self._apply(slot, Outcome(emits=[Emit(output)]))
