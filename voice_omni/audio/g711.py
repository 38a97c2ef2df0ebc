"""G.711 mu-law and A-law (ITU-T G.711), one byte a sample at 8 kHz, by table."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voice_omni.audio.pcm import Samples

Law = Literal["mulaw", "alaw"]


def _mulaw_decoded() -> NDArray[np.int16]:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    exponent = (code >> 4) & 7
    magnitude = ((((code & 0x0F) << 3) + 0x84) << exponent) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_decoded() -> NDArray[np.int16]:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    exponent = (code >> 4) & 7
    mantissa = ((code & 0x0F) << 4) + 8
    magnitude = np.where(exponent == 0, mantissa, (mantissa + 0x100) << np.maximum(exponent - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _nearest_codes(decoded: NDArray[np.int16]) -> NDArray[np.uint8]:
    """The code whose value is nearest, for each of the 65,536 samples; index ``sample & 0xFFFF``."""
    order = np.argsort(decoded, kind="stable")
    values = decoded[order].astype(np.int32)
    samples = np.arange(-32768, 32768, dtype=np.int32)
    borders = (values[:-1] + values[1:]) // 2
    codes = order[np.searchsorted(borders, samples, side="right")].astype(np.uint8)
    return np.roll(codes, -32768)


_DECODED = {"mulaw": _mulaw_decoded(), "alaw": _alaw_decoded()}
_CODES = {law: _nearest_codes(table) for law, table in _DECODED.items()}


def decode_g711(data: bytes, law: Law) -> Samples:
    """One byte a sample to float32 ``[samples]`` in [-1, 1]."""
    return _DECODED[law][np.frombuffer(data, dtype=np.uint8)].astype(np.float32) / np.float32(32768)


def encode_g711(samples: Samples, law: Law) -> bytes:
    """float32 ``[samples]`` to one byte a sample; values outside [-1, 1] saturate."""
    linear = np.clip(np.rint(samples * np.float32(32768)), -32768, 32767).astype(np.int16)
    codes: NDArray[np.uint8] = _CODES[law][linear.view(np.uint16)]
    return codes.tobytes()
