"""The stage ``code2wav``: the talker's codec frames in, sound out (see :mod:`.code2wav`).

A chunk may have ``marks``: list of ``[frame, text]``, the piece of text whose speech begins with this frame, counted
from the chunk's first. They go out as sample offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice_omni.model_runner.interface import Chunk
from voice_omni.models.qwen3_omni.code2wav import Decoding, StreamDecoder
from voice_omni.models.qwen3_omni.config import CODEC_SAMPLE_RATE
from voice_omni.models.qwen3_omni.wire import CODES
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import AUDIO, MARKS, SAMPLES


@dataclass(slots=True)
class Stream:
    """One request: its slot in the decoder, the frames that wait, and the marks by the frame they stand at."""

    slot: int
    waiting: NDArray[np.int64]
    taken: int = 0
    samples: int = 0
    marks: deque[tuple[int, str]] = field(default_factory=deque)


class Submitted:
    """A :class:`~voice_omni.model_runner.interface.Submission`."""

    def __init__(self, decoding: Decoding, pieces: Sequence[tuple[Stream, list[list[Any]]]]) -> None:
        self._decoding = decoding
        self._pieces = pieces

    def done(self) -> bool:
        return self._decoding.done()

    def collect(self) -> Sequence[Data | Exception]:
        outputs: list[Data | Exception] = []
        for (state, marks), samples in zip(self._pieces, self._decoding.collect(), strict=True):
            state.samples += len(samples)
            outputs.append({AUDIO: samples, MARKS: marks})
        return outputs


class Code2WavRunner:
    """A :class:`~voice_omni.model_runner.interface.SubmittingVocoder` that can be interrupted.

    The sound of a frame is its hop, but for the stream's first, which is shorter by what the decoder cuts off.
    """

    sample_rate = CODEC_SAMPLE_RATE

    def __init__(self, decoder: StreamDecoder) -> None:
        self._decoder = decoder
        self.frame_samples = decoder.frame_samples

    def open(self, payload: StagePayload) -> Stream:
        """Raises :class:`OmniError` ``overloaded`` if the decoder has no room for another stream."""
        return Stream(self._decoder.open(), np.zeros((0, self._decoder.codebooks), np.int64))

    def push(self, state: Stream, chunk: Chunk) -> None:
        """Raises :class:`OmniError` ``internal_error`` for what are no codec frames."""
        codes = np.asarray(chunk.data[CODES])
        self._decoder.check(codes)
        known = state.taken + len(state.waiting)
        state.marks.extend((known + int(frame), str(text)) for frame, text in chunk.data.get(MARKS, ()))
        state.waiting = np.concatenate((state.waiting, codes))

    def ready(self, state: Stream, ended: bool) -> int:
        return len(state.waiting)

    def submit(self, batch: Sequence[tuple[Stream, int]]) -> Submitted:
        """Raises :class:`OmniError` ``aborted`` if interrupted."""
        decoding = self._decoder.submit([(state.slot, state.waiting[:frames]) for state, frames in batch])
        pieces = []
        for state, frames in batch:
            first, taken = state.taken, min(frames, len(state.waiting))
            state.taken += taken
            state.waiting = state.waiting[taken:]
            pieces.append((state, self._marks(state, first)))
        return Submitted(decoding, pieces)

    def decode(self, batch: Sequence[tuple[Stream, int]]) -> Sequence[Data | Exception]:
        return self.submit(batch).collect()

    def interrupt(self) -> None:
        self._decoder.interrupt()

    def result(self, state: Stream) -> Data:
        return {SAMPLES: state.samples}

    def close(self, state: Stream) -> None:
        self._decoder.close(state.slot)

    def _marks(self, state: Stream, first: int) -> list[list[Any]]:
        """The marks of the frames from ``first`` to those just taken, as sample offsets in what they gave."""
        marks: list[list[Any]] = []
        while state.marks and state.marks[0][0] < state.taken:
            frame, text = state.marks.popleft()
            # The first piece lacks samples at its front, and so do all offsets in it.
            missing = self._decoder.trim if first == 0 else 0
            marks.append([max(0, (frame - first) * self.frame_samples - missing), text])
        return marks
