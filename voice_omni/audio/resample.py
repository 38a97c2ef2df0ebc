"""A streaming sample-rate converter with about a millisecond of delay.

A polyphase windowed-sinc filter (Kaiser window; Smith, "Digital Audio Resampling", CCRMA). Conversation needs a
short delay more than a steep slope: libsoxr's streaming converter, at any quality with alias rejection, holds back
around 40 ms of sound at these rates. However a stream is cut into chunks, the samples are the same, bit for bit.
"""

from __future__ import annotations

from functools import cache
from math import ceil, gcd

import numpy as np
from numpy.typing import NDArray

from voice_omni.audio.pcm import Samples

_ZERO_CROSSINGS = 24
_KAISER_BETA = 8.0
_ROLLOFF = 0.93
"""Where the filter's slope is centred, as a fraction of the lower rate's Nyquist frequency."""


@cache
def _filter_bank(up: int, down: int) -> NDArray[np.float32]:
    """``[up, taps]``: row ``p`` interpolates at ``p / up`` of the way from one input sample to the next."""
    cutoff = _ROLLOFF * min(1.0, up / down)
    half = ceil(_ZERO_CROSSINGS / cutoff)
    offsets = np.arange(1 - half, half + 1)[None, :] - np.arange(up)[:, None] / up
    window = np.i0(_KAISER_BETA * np.sqrt(np.clip(1 - (offsets / half) ** 2, 0, 1))) / np.i0(_KAISER_BETA)
    bank = cutoff * np.sinc(cutoff * offsets) * window
    normalised: NDArray[np.float64] = bank / bank.sum(axis=1, keepdims=True)
    return normalised.astype(np.float32)


class StreamResampler:
    """Converts float32 mono from ``source_rate`` to ``target_rate`` (Hz).

    Output sample ``k`` is the sound at ``k / target_rate`` seconds, so both streams share one time axis.
    """

    def __init__(self, source_rate: int, target_rate: int) -> None:
        divisor = gcd(source_rate, target_rate)
        self._up, self._down = target_rate // divisor, source_rate // divisor
        self._bank = _filter_bank(self._up, self._down)
        self._half = self._bank.shape[1] // 2
        self.reset()

    def reset(self) -> None:
        """Begin a new stream; what has not come out is dropped."""
        self._kept: Samples = np.zeros(self._half - 1, np.float32)
        self._start = 1 - self._half  # the position in the stream of the first kept sample
        self._consumed = 0
        self._produced = 0

    def push(self, samples: Samples) -> Samples:
        """The output that is certain once ``samples`` are known."""
        if self._up == self._down:
            return samples
        self._consumed += len(samples)
        return self._advance(samples)

    def flush(self) -> Samples:
        """The rest of the output, as if silence followed; then a new stream begins.

        All output of the stream together has ``ceil(consumed * target_rate / source_rate)`` samples.
        """
        if self._up == self._down:
            return np.zeros(0, np.float32)
        missing = -(-self._consumed * self._up // self._down) - self._produced
        tail = self._advance(np.zeros(self._half, np.float32))[:missing]
        self.reset()
        return tail

    def _advance(self, samples: Samples) -> Samples:
        known = np.concatenate([self._kept, samples])
        # Output k lies after input position k * down // up, and needs `half` samples from there on.
        positions_known = self._start + len(known) - self._half
        end = max(self._produced, (positions_known * self._up - 1) // self._down + 1)
        result = self._interpolate(known, end)
        self._produced = end
        keep_from = end * self._down // self._up + (1 - self._half) - self._start
        self._kept = known[min(max(keep_from, 0), len(known)) :]
        self._start += len(known) - len(self._kept)
        return result

    def _interpolate(self, known: Samples, end: int) -> Samples:
        """The output up to sample ``end`` from the sound that begins at ``self._start``."""
        if end <= self._produced:
            return np.zeros(0, np.float32)
        taps = 2 * self._half
        if self._up == 1:
            # Each output starts `down` samples after the one before: no copies, and a third of the time.
            first = self._produced * self._down + (1 - self._half - self._start)
            rows = (end - self._produced, taps)
            decimated: Samples = np.einsum(
                "ij,j->i", np.ndarray(rows, np.float32, known, 4 * first, (4 * self._down, 4)), self._bank[0]
            )
            return decimated
        clock = np.arange(self._produced, end, dtype=np.int64) * self._down
        first_tap = clock // self._up + (1 - self._half - self._start)
        # Every stretch of `taps` samples as a row, without copying; numpy's own helper for it costs more than the sum.
        stretches = np.ndarray((len(known) - taps + 1, taps), np.float32, known, 0, (4, 4))
        # A sum along the rows adds in the same order however many rows there are; a matrix product would not.
        result: Samples = (stretches[first_tap] * self._bank[clock % self._up]).sum(axis=1)
        return result
