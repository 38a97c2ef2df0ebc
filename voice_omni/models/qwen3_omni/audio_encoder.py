"""One utterance's way through the audio tower while it is being spoken.

The tower's attention windows (see :mod:`.audio_tower`) decide what can be known early: with windows of one or two
seconds each window's rows are final as soon as its sound is there; with the released eight seconds they are what the
model gives offline, and come later. Either way streaming gives what encoding the whole utterance gives.

A spectrogram of a few frames takes as long as one of many, so sound is held until there is a good piece of it, or
enough for a window.

The one thing that later sound changes in earlier windows is the floor of the mel spectrogram, which lies a fixed
distance below the loudest frame of the utterance. When the maximum rises, a window whose features it changes by more
than ``tolerance`` is due again, and its rows are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor

from voice_omni.models.qwen3_omni.audio_tower import CHUNK, CHUNK_ROWS, AudioEncoder, MelWindow, row_count
from voice_omni.models.qwen3_omni.mel import DYNAMIC_RANGE, SAMPLE_RATE, MelStream, Samples, complete_frames, scaled
from voice_omni.proto.errors import OmniError

_PIECE: Final = 5_120
"""Samples (0.3 s) that are held at most: what is left to do when the sound ends, and a sixteenth of the work that
chunks of 20 ms would be."""


class Encodes(Protocol):
    """The tower, or what stands in front of it."""

    def encode(self, windows: Sequence[MelWindow]) -> list[Tensor]:
        """As :meth:`.audio_tower.AudioEncoder.encode`."""
        ...


@dataclass(slots=True)
class _Window:
    """``floor``: what its encoded features were raised to; None while it has not been encoded."""

    raw: Tensor
    lowest: float
    floor: float | None = None
    rows: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """A window to encode: give its rows back to :meth:`AudioStream.accept`."""

    index: int
    window: MelWindow
    floor: float


class AudioStream:
    """The state of one utterance: sound in, windows that are due out, rows in their place.

    ``window_frames``: mel frames of an attention window, a multiple of 100. ``tolerance``: how much a rising maximum
    may lift a feature before a window is encoded again, in powers of ten of energy (0.1 is 1 dB); 0 is exact.
    ``max_seconds`` bounds the utterance, and with it the memory: 51 KB for each second.
    """

    def __init__(
        self, *, bands: int, window_frames: int, tolerance: float = 0.0, max_seconds: float = float("inf")
    ) -> None:
        self._mel = MelStream(bands)
        self._window_frames = window_frames
        self._tolerance = tolerance
        self._max_samples = max_seconds * SAMPLE_RATE
        self._windows: list[_Window] = []
        self._held: list[Samples] = []
        self._held_samples = 0
        self._samples = 0
        self._rest = torch.zeros(bands, 0)
        self._frames = 0
        # Windows and maximum when nothing was due the last time.
        self._settled: tuple[int, float] | None = None

    def fork(self) -> AudioStream:
        """The same utterance a second time: one may be finished while the other hears on. What is encoded is shared."""
        twin = copy(self)
        twin._mel = copy(self._mel)
        twin._windows = [replace(window) for window in self._windows]
        twin._held = list(self._held)
        return twin

    def push(self, samples: Samples) -> None:
        """More sound, float32 ``[n]`` at 16 kHz. Raises :class:`OmniError` ``invalid_value`` if it becomes too long."""
        self._samples += len(samples)
        if self._samples > self._max_samples:
            raise OmniError(
                "invalid_value", f"the sound is longer than {self._max_samples / SAMPLE_RATE:g} seconds", param="audio"
            )
        # The caller may use its memory again.
        self._held.append(np.array(samples, np.float32))
        self._held_samples += len(samples)
        border = len(self._windows) * self._window_frames
        if self._held_samples >= _PIECE or complete_frames(self._samples) - border >= self._window_frames:
            self._take_in()

    def finish(self) -> None:
        """The sound has ended: the rest is a window. Raises :class:`OmniError` ``invalid_value`` if it is too short."""
        self._take_in()
        self._extend(self._mel.finish())
        while self._rest.shape[1]:
            self._cut(min(self._window_frames, self._rest.shape[1]))

    def due(self) -> list[Due]:
        """The windows to encode now: new ones, and those whose features have changed."""
        state = len(self._windows), self._mel.maximum
        if state == self._settled:
            return []
        floor = self._mel.maximum - DYNAMIC_RANGE
        due = []
        for index, window in enumerate(self._windows):
            if window.floor is None or floor - max(window.floor, window.lowest) > self._tolerance:
                mel = MelWindow(scaled(window.raw, self._mel.maximum), padded=self._frames >= CHUNK)
                due.append(Due(index, mel, floor))
        if not due:
            self._settled = state
        return due

    def accept(self, due: Due, rows: Tensor) -> int:
        """A window's rows; returns the index in the utterance of the first of them."""
        window = self._windows[due.index]
        window.floor, window.rows = due.floor, rows
        return due.index * self._window_frames // CHUNK * CHUNK_ROWS

    @property
    def count(self) -> int:
        """Rows of the windows that are cut, encoded or not; of the whole utterance when it is finished."""
        return row_count(self._frames - self._rest.shape[1])

    def rows(self) -> Tensor:
        """All rows so far, ``[count, output_dim]``. To be called with nothing due."""
        return torch.cat([window.rows for window in self._windows if window.rows is not None])

    def _take_in(self) -> None:
        if not self._held:
            return
        held, self._held, self._held_samples = np.concatenate(self._held), [], 0
        self._extend(self._mel.push(held))
        while self._rest.shape[1] >= self._window_frames:
            self._cut(self._window_frames)

    def _extend(self, raw: Tensor) -> None:
        self._frames += raw.shape[1]
        self._rest = torch.cat((self._rest, raw), dim=1)

    def _cut(self, frames: int) -> None:
        raw, self._rest = self._rest[:, :frames].clone(), self._rest[:, frames:].clone()
        self._windows.append(_Window(raw, float(raw.min())))


def encode_due(encoder: Encodes, streams: Sequence[AudioStream]) -> list[list[tuple[int, Tensor]]]:
    """Encode what is due of all streams in one batch; for each stream, the changed rows and where they begin."""
    due = [(stream, each) for stream in streams for each in stream.due()]
    encoded = encoder.encode([each.window for _, each in due]) if due else []
    changed: dict[int, list[tuple[int, Tensor]]] = {id(stream): [] for stream in streams}
    for (stream, each), rows in zip(due, encoded, strict=True):
        changed[id(stream)].append((stream.accept(each, rows), rows))
    return [changed[id(stream)] for stream in streams]


def encode_whole(encoder: AudioEncoder, utterances: Sequence[Samples]) -> list[Tensor]:
    """The rows of whole utterances, float32 ``[n]`` at 16 kHz, in windows as the checkpoint's configuration says."""
    streams = []
    for samples in utterances:
        config = encoder.config
        stream = AudioStream(bands=config.num_mel_bins, window_frames=config.n_window_infer)
        stream.push(samples)
        stream.finish()
        streams.append(stream)
    encode_due(encoder, streams)
    return [stream.rows() for stream in streams]
