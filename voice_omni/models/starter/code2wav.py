"""Latent frames to samples: the decoder half of the starter voice, streaming and exact.

Takes the talker's chunks (see :mod:`.talker`). A *segment* is one clause: the frames of consecutive chunks up to one
with ``end``. Segments are decoded independently of each other, so that each equals the one decode of it alone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_omni.model_runner.interface import Chunk
from voice_omni.models.starter.options import Code2WavOptions
from voice_omni.models.starter.voice import FRAME_SAMPLES, LATENT_CHANNELS, SAMPLE_RATE, Model, open_voice
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import AUDIO, MARKS, SAMPLES

CONTEXT: Final = 10
"""Frames on each side that a frame's samples depend on: with 10 a piece equals the one decode to rounding, with 8 it
does not."""

_BATCH_FRAMES: Final = 256
"""Frames in one run of the decoder at most: it takes 0.45 MB of memory for each."""

Samples = NDArray[np.float32]
Mark = list[Any]


@dataclass(slots=True)
class _Segment:
    """``frames`` are those from ``kept`` on (the decoded ones before are needed as context only); ``done`` counts the
    decoded ones."""

    frames: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, LATENT_CHANNELS), np.float32))
    kept: int = 0
    done: int = 0
    complete: bool = False
    pause: int = 0
    marks: deque[tuple[int, str]] = field(default_factory=deque)

    @property
    def length(self) -> int:
        return self.kept + len(self.frames)

    @property
    def decodable(self) -> int:
        """Frames whose right context is there, or which need none because the segment ends."""
        return max(0, self.length - (0 if self.complete else CONTEXT) - self.done)

    @property
    def spent(self) -> bool:
        return self.complete and self.done == self.length

    def take(self, frames: int) -> _Window:
        """The next ``frames`` frames with their context, and the marks that fall into them."""
        start, stop = max(0, self.done - CONTEXT), min(self.length, self.done + frames + CONTEXT)
        window = _Window(self.frames[start - self.kept : stop - self.kept], self.done - start, frames)
        self.done += frames
        self.frames = self.frames[max(0, self.done - CONTEXT) - self.kept :]
        self.kept = max(self.kept, self.done - CONTEXT)
        return window


@dataclass(slots=True)
class _Window:
    """Latents ``[context + frames + context, 192]``; the wanted ones begin at ``skip``."""

    latents: NDArray[np.float32]
    skip: int
    frames: int


@dataclass(slots=True)
class Stream:
    """One request's segments that are not fully decoded, oldest first."""

    segments: deque[_Segment] = field(default_factory=deque)
    samples: int = 0


@dataclass(slots=True)
class _Plan:
    """What one call decodes of one stream: windows and pauses in their order, and marks as sample offsets."""

    parts: list[_Window | int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    samples: int = 0


class Code2WavRunner:
    """A :class:`~voice_omni.model_runner.interface.VocoderRunner` over ``decoder.onnx``."""

    sample_rate = SAMPLE_RATE
    frame_samples = FRAME_SAMPLES

    def __init__(self, decoder: Model, options: Code2WavOptions) -> None:
        self._decoder = decoder
        self._gain = np.float32(options.gain)

    def open(self, payload: StagePayload) -> Stream:
        return Stream()

    def push(self, state: Stream, chunk: Chunk) -> None:
        """Raises :class:`OmniError` ``internal_error`` if the latents do not have the shape ``[frames, 192]``."""
        data = chunk.data
        latents = data["latents"]
        if latents.ndim != 2 or latents.shape[1] != LATENT_CHANNELS:
            raise OmniError(
                "internal_error", f"expected latents [frames, {LATENT_CHANNELS}], got {list(latents.shape)}"
            )
        if not state.segments or state.segments[-1].complete:
            state.segments.append(_Segment())
        segment = state.segments[-1]
        segment.marks.extend((segment.length + int(offset), str(text)) for offset, text in data["marks"])
        segment.frames = np.concatenate((segment.frames, latents.astype(np.float32, copy=False)))
        if data["end"]:
            segment.complete = True
            segment.pause = int(data["pause"])

    def ready(self, state: Stream, ended: bool) -> int:
        decodable = sum(segment.decodable for segment in state.segments)
        # A segment without frames still has its pause and its marks to give.
        return decodable or int(any(segment.spent for segment in state.segments))

    def decode(self, batch: Sequence[tuple[Stream, int]]) -> Sequence[Data | Exception]:
        """A chunk for each stream: its frames, and the whole pause after every segment that they finish."""
        plans = [_plan(state, frames) for state, frames in batch]
        decoded = iter(self._samples([part for plan in plans for part in plan.parts if isinstance(part, _Window)]))
        outputs: list[Data | Exception] = []
        for (state, _), plan in zip(batch, plans, strict=True):
            parts = [np.zeros(part, np.float32) if isinstance(part, int) else next(decoded) for part in plan.parts]
            state.samples += plan.samples
            outputs.append({AUDIO: np.concatenate([np.zeros(0, np.float32), *parts]), MARKS: plan.marks})
        return outputs

    def result(self, state: Stream) -> Data:
        return {SAMPLES: state.samples}

    def interrupt(self) -> None:
        self._decoder.interrupt()

    def close(self, state: Stream) -> None:
        state.segments.clear()

    def _samples(self, windows: Sequence[_Window]) -> list[Samples]:
        """Each window's samples; windows of one length run as one batch."""
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for index, window in enumerate(windows):
            by_length[len(window.latents)].append(index)
        samples: dict[int, Samples] = {}
        for length, indices in by_length.items():
            size = max(1, _BATCH_FRAMES // length)
            for start in range(0, len(indices), size):
                group = indices[start : start + size]
                samples |= zip(group, self._run([windows[index] for index in group]), strict=True)
        return [samples[index] for index in range(len(windows))]

    def _run(self, windows: Sequence[_Window]) -> list[Samples]:
        latents = np.stack([window.latents for window in windows]).transpose(0, 2, 1)
        (decoded,) = self._decoder.run(["samples"], {"latents": np.ascontiguousarray(latents)})
        scaled = np.clip(decoded[:, 0] * self._gain, -1.0, 1.0)
        return [
            whole[window.skip * FRAME_SAMPLES : (window.skip + window.frames) * FRAME_SAMPLES]
            for whole, window in zip(scaled, windows, strict=True)
        ]


def _plan(state: Stream, frames: int) -> _Plan:
    """Take at most ``frames`` frames from the front of the stream, and the pauses of the segments that this ends."""
    plan = _Plan()
    while state.segments:
        segment = state.segments[0]
        count = min(frames, segment.decodable)
        first = segment.done
        if count:
            plan.parts.append(segment.take(count))
        while segment.marks and (segment.marks[0][0] < segment.done or segment.spent):
            offset, text = segment.marks.popleft()
            plan.marks.append([plan.samples + (offset - first) * FRAME_SAMPLES, text])
        plan.samples += count * FRAME_SAMPLES
        frames -= count
        if not segment.spent:
            break
        if segment.pause:
            plan.parts.append(segment.pause)
            plan.samples += segment.pause
        state.segments.popleft()
        if frames == 0:
            break
    return plan


def build(context: StageContext) -> Code2WavRunner:
    """The runner of the stage ``code2wav``; ``context.options`` are :class:`.options.Code2WavOptions`."""
    voice = open_voice()
    return Code2WavRunner(Model(voice.folder / "decoder.onnx", context.threads), context.options)
