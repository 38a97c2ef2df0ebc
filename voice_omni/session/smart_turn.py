"""Smart Turn v3 (github.com/pipecat-ai/smart-turn, BSD-2-Clause): how probably a person has finished what they say.

An encoder of Whisper's shape listens to the last eight seconds of a turn, its pause included, and judges tone and
wording as people do. The features are Whisper's (Radford et al. 2022, section 2.2): log-mel power of 80 Slaney bands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from voice_omni.audio.pcm import Samples
from voice_omni.session.silero import RATE

SPAN: Final = 8 * RATE
"""Samples that the model looks at: 8 s, silence in front of what is shorter."""
_FFT: Final = 400
_HOP: Final = 160
_BANDS: Final = 80
_FLOOR: Final = 1e-10
_VARIANCE_FLOOR: Final = 1e-7


def _mel_filters() -> NDArray[np.float64]:
    """Slaney's triangular filters from 0 Hz to half the rate, each of unit area: ``[80, 201]``.

    His scale is linear below 1 kHz (15 mel, 200/3 Hz each) and logarithmic above (27 mel for a factor of 6.4).
    """
    step, knee = np.log(6.4) / 27, 15.0
    top = knee + np.log(RATE / 2 / 1000) / step
    mels = np.linspace(0.0, top, _BANDS + 2)
    edges = np.where(mels < knee, mels * 200 / 3, 1000 * np.exp(step * (mels - knee)))
    bins = np.linspace(0, RATE / 2, _FFT // 2 + 1)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    filters: NDArray[np.float64] = np.clip(np.minimum(rising, falling), 0, None) * 2 / (high - low)
    return filters


_FILTERS: Final = _mel_filters()
_WINDOW: Final = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)


def features(samples: Samples) -> Samples:
    """float32 ``[n]`` at 16 kHz to float32 ``[80, 800]``: the last 8 s, one column for each 10 ms."""
    span = np.zeros(SPAN, np.float32)
    recent = samples[-SPAN:]
    span[SPAN - len(recent) :] = recent
    span = (span - span.mean()) / np.sqrt(span.var() + _VARIANCE_FLOOR)
    padded = np.pad(span.astype(np.float64), _FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[:SPAN:_HOP]
    spectrum = np.fft.rfft(frames * _WINDOW)
    power = spectrum.real**2 + spectrum.imag**2
    bands = np.log10(np.maximum(_FILTERS @ power.T, _FLOOR))
    columns: Samples = ((np.maximum(bands, bands.max() - 8) + 4) / 4).astype(np.float32)
    return columns


class SmartTurnModel:
    """The loaded network. It keeps nothing between calls, so that any number of threads may share it."""

    def __init__(self, path: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1  # the threads that call it are the parallelism
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def probability(self, samples: Samples) -> float:
        """That the turn, float32 ``[n]`` at 16 kHz with the pause that follows it, is complete."""
        (probability,) = self._session.run(None, {"input_features": features(samples)[None]})
        return float(probability[0, 0])
