"""Linear PCM: 16-bit little-endian bytes on the wire, float32 in [-1, 1] inside."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

_SCALE = 32768.0


def decode_pcm16(data: bytes) -> Samples:
    """Little-endian 16-bit PCM, mono, to float32 ``[samples]``. ``data`` holds whole samples."""
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(_SCALE)


def encode_pcm16(samples: Samples) -> bytes:
    """float32 ``[samples]`` to little-endian 16-bit PCM; values outside [-1, 1] saturate.

    Decoding and encoding again gives back the same bytes.
    """
    scaled = np.rint(samples * np.float32(_SCALE))
    clipped: NDArray[np.float32] = np.clip(scaled, -32768, 32767)
    return clipped.astype("<i2").tobytes()


def level_dbfs(samples: Samples) -> float:
    """Root mean square level in dB relative to full scale; minus infinity for silence or nothing."""
    if not len(samples):
        return -math.inf
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return 10.0 * math.log10(power) if power > 0 else -math.inf


class SampleAligner:
    """Cuts a byte stream at sample borders: a byte that is left over waits for the rest of its sample.

    Padding it instead would shift every later sample by half its width, which is loud noise.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._rest = b""

    def push(self, data: bytes) -> bytes:
        """The whole samples that are complete now."""
        joined = self._rest + data if self._rest else data
        whole = len(joined) - len(joined) % self._width
        self._rest = joined[whole:]
        return joined[:whole]

    def reset(self) -> None:
        self._rest = b""
