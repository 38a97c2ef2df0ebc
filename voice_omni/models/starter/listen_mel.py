"""Whisper's input: a log-mel spectrogram, in numpy.

Same numbers as the reference feature extractor (https://arxiv.org/abs/2212.04356, section 2.2): 16 kHz, Hann windows of
400 samples, hop 160, 80 Slaney mel bands, log10, at most 8 below the maximum, scaled to about [-1, 1].
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SAMPLE_RATE: Final = 16_000
HOP: Final = 160
FRAMES_PER_SECOND: Final = SAMPLE_RATE // HOP
MAX_FRAMES: Final = 3000
"""Thirty seconds: all that the model's encoder has positions for."""

_WINDOW: Final = 400
_BANDS: Final = 80
_FLOOR: Final = 1e-10


def _mel_filters() -> Floats:
    """Triangles of equal area on Slaney's mel scale (linear below 1 kHz), float32 ``[80, 201]``, 0 to 8 kHz."""
    break_hz, break_mel, log_step = 1000.0, 15.0, np.log(6.4) / 27.0
    top = break_mel + np.log(SAMPLE_RATE / 2 / break_hz) / log_step
    mels = np.linspace(0.0, top, _BANDS + 2)
    edges = np.where(mels < break_mel, mels * break_hz / break_mel, break_hz * np.exp(log_step * (mels - break_mel)))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, _WINDOW // 2 + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * area[:, None], np.float32)


_FILTERS: Final = _mel_filters()
_HANN: Final = np.hanning(_WINDOW + 1)[:-1].astype(np.float32)


def log_mel(samples: Floats, padding: int) -> Floats:
    """Features of ``samples`` (float32 ``[n]``, 16 kHz) and ``padding`` frames of silence after them.

    float32 ``[80, n // 160 + padding]``: what the reference gives for the samples alone, cut there.
    """
    half = _WINDOW // 2
    frames = len(samples) // HOP
    sound = np.pad(np.pad(samples, (0, _WINDOW)), (half, 0), mode="reflect")
    audible = min(frames + 2, frames + padding)
    windows = np.lib.stride_tricks.sliding_window_view(sound, _WINDOW)[::HOP][:audible]
    power = np.abs(np.fft.rfft(windows * _HANN, axis=1)) ** 2
    log = np.full((_BANDS, frames + padding), np.log10(_FLOOR), np.float32)
    log[:, :audible] = np.log10(np.maximum(_FILTERS @ power.T, _FLOOR))
    return np.asarray((np.maximum(log, log.max() - 8.0) + 4.0) / 4.0, np.float32)
