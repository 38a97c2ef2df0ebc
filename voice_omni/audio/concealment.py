"""Waveform substitution for lost speech, for codecs that have no concealment of their own.

After ITU-T G.711 Appendix I: the last pitch period is repeated, from one that was overlapped into a smooth loop, and
fades away, because after 60 ms nobody can guess how the voice went on. The first sound that arrives again is faded in
over the end of what was substituted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from voice_omni.audio.pcm import Samples

_PITCH_HZ: Final = (66.0, 400.0)
_FADE_S: Final = 0.06
_OVERLAP_S: Final = 0.005


class Concealer:
    """Keeps the last 50 ms of a stream of float32 mono, and continues them where something is missing."""

    def __init__(self, rate: int) -> None:
        """``rate``: Hz."""
        self._shortest = round(rate / _PITCH_HZ[1])
        self._longest = round(rate / _PITCH_HZ[0])
        self._fade = round(_FADE_S * rate)
        self._overlap = round(_OVERLAP_S * rate)
        self._past: Samples = np.zeros(2 * self._longest + self._overlap, np.float32)
        self._period: Samples | None = None
        self._concealed = 0

    def received(self, samples: Samples) -> Samples:
        """Sound that was received; returns it, faded in if it follows on a gap."""
        if self._period is not None and len(samples) >= self._overlap:
            rising = np.linspace(0, 1, self._overlap, dtype=np.float32)
            samples = samples.copy()
            samples[: self._overlap] *= rising
            samples[: self._overlap] += self._continued(self._overlap) * (1 - rising)
        self._period = None
        self._concealed = 0
        self._past = np.concatenate([self._past, samples])[-len(self._past) :]
        return samples

    def conceal(self, count: int) -> Samples:
        """The next ``count`` samples, of which nothing was received."""
        if self._period is None:
            self._period = self._loop()
        sound = self._continued(count)
        self._concealed += count
        return sound

    def _continued(self, count: int) -> Samples:
        assert self._period is not None
        index = np.arange(self._concealed, self._concealed + count)
        gain = np.clip(1 - index / self._fade, 0, 1).astype(np.float32)
        continued: Samples = self._period[index % len(self._period)] * gain
        return continued

    def _loop(self) -> Samples:
        """The last pitch period, its end overlapped with what came before its beginning."""
        length = self._pitch_period()
        overlap = min(self._overlap, length)
        loop = self._past[-length:].copy()
        rising = np.linspace(0, 1, overlap, dtype=np.float32)
        before = self._past[len(self._past) - length - overlap : len(self._past) - length]
        loop[-overlap:] = loop[-overlap:] * (1 - rising) + before * rising
        return loop

    def _pitch_period(self) -> int:
        """The lag at which the last stretch of sound is most like what came before it, in samples."""
        recent = self._past[-self._longest :]
        earlier = self._past[len(self._past) - 2 * self._longest : len(self._past) - self._shortest]
        products = np.correlate(earlier, recent, "valid")
        squares = np.concatenate([[0.0], np.cumsum(np.square(earlier, dtype=np.float64))])
        energies = squares[self._longest :] - squares[: -self._longest]
        likeness = products / np.sqrt(energies + 1e-9)
        return self._longest - int(np.argmax(likeness))
