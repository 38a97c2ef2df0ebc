"""Sound to a log-mel spectrogram, whole or while it arrives.

The audio tower reads what Whisper reads (https://arxiv.org/abs/2212.04356, section 2.2) with 128 bands: 16 kHz, Hann
windows of 400 samples centred on every 160th sample, Slaney mel bands, log10, at most 8 below the utterance's maximum,
scaled. The signal is reflected at both ends, and the last of the centred windows is dropped.

The maximum is the only thing that sound yet to come can change in frames already computed, so here frames are *raw*
(without it) until :func:`scaled` is asked for.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from voice_omni.proto.errors import OmniError

Samples = NDArray[np.float32]

SAMPLE_RATE: Final = 16_000
HOP: Final = 160
FRAMES_PER_SECOND: Final = SAMPLE_RATE // HOP
DYNAMIC_RANGE: Final = 8.0
"""In powers of ten: what is further below the maximum counts as this far below."""

_WINDOW: Final = 400
_HALF: Final = _WINDOW // 2
_FLOOR: Final = 1e-10
SHORTEST: Final = _HALF + 1
"""Samples (13 ms) that there must be to reflect the signal at its ends."""


def complete_frames(samples: int) -> int:
    """How many frames of an utterance no sample behind so many can change."""
    return max(0, (samples - _HALF) // HOP + 1)


def scaled(raw: Tensor, maximum: float) -> Tensor:
    """What the model reads, of raw frames ``[bands, frames]`` in an utterance whose raw maximum this is."""
    return (raw.clamp(min=maximum - DYNAMIC_RANGE) + 4.0) / 4.0


def log_mel(samples: Samples, bands: int = 128) -> Tensor:
    """Features of a whole utterance: float32 ``[n]`` at 16 kHz to float32 ``[bands, n // 160]``.

    Raises :class:`OmniError` ``invalid_value`` if there are fewer than :data:`SHORTEST` samples.
    """
    stream = MelStream(bands)
    raw = torch.cat((stream.push(samples), stream.finish()), dim=1)
    return scaled(raw, stream.maximum)


class MelStream:
    """Raw frames of one utterance, each as soon as no later sample can change it: 25 ms after its centre at most.

    ``maximum``: of all raw frames so far; negative infinity before the first.
    """

    def __init__(self, bands: int = 128) -> None:
        self.maximum = float("-inf")
        self._bands = bands
        self._filters = _mel_filters(bands)
        self._window = torch.hann_window(_WINDOW)
        self._samples = 0
        self._frames = 0
        # From the next frame's window on; the reflected beginning stands in front once it is known.
        self._held = torch.zeros(0)

    def push(self, samples: Samples) -> Tensor:
        """More sound; the raw frames ``[bands, frames]`` that are complete now, possibly none."""
        began = self._samples >= SHORTEST
        self._samples += len(samples)
        self._held = torch.cat((self._held, torch.from_numpy(np.array(samples, np.float32))))
        if self._samples < SHORTEST:
            return torch.zeros(self._bands, 0)
        if not began:
            self._held = torch.cat((self._held[1 : _HALF + 1].flip(0), self._held))
        return self._take(max(0, (len(self._held) - _WINDOW) // HOP + 1))

    def finish(self) -> Tensor:
        """The sound has ended; the remaining raw frames. Raises :class:`OmniError` ``invalid_value`` if too short."""
        if self._samples < SHORTEST:
            raise OmniError(
                "invalid_value", f"{self._samples} samples of sound are too few: {SHORTEST} are needed", param="audio"
            )
        self._held = torch.cat((self._held, self._held[-_HALF - 1 : -1].flip(0)))
        return self._take(self._samples // HOP - self._frames)

    def _take(self, count: int) -> Tensor:
        if count == 0:
            return torch.zeros(self._bands, 0)
        windows = self._held.unfold(0, _WINDOW, HOP)[:count] * self._window
        power = torch.fft.rfft(windows).abs().square()
        raw: Tensor = (self._filters @ power.T).clamp(min=_FLOOR).log10()
        self._held = self._held[count * HOP :].clone()
        self._frames += count
        self.maximum = max(self.maximum, float(raw.max()))
        return raw


def _mel_filters(bands: int) -> Tensor:
    """Triangles of equal area on Slaney's mel scale (linear below 1 kHz), float32 ``[bands, 201]``, 0 to 8 kHz."""
    break_hz, break_mel, log_step = 1000.0, 15.0, np.log(6.4) / 27.0
    top = break_mel + np.log(SAMPLE_RATE / 2 / break_hz) / log_step
    mels = np.linspace(0.0, top, bands + 2)
    edges = np.where(mels < break_mel, mels * break_hz / break_mel, break_hz * np.exp(log_step * (mels - break_mel)))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, _HALF + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return torch.from_numpy(np.maximum(0.0, np.minimum(rising, falling)) * area[:, None]).float()
