"""G.711, against values from the ITU-T recommendation and its own symmetry."""

from __future__ import annotations

import numpy as np
import pytest

from voice_omni.audio.g711 import Law, decode_g711, encode_g711


@pytest.mark.parametrize(
    ("law", "code", "value"),
    [
        ("mulaw", 0xFF, 0),
        ("mulaw", 0x00, -32124),
        ("mulaw", 0x80, 32124),
        ("mulaw", 0xF0, 120),
        ("alaw", 0xD5, 8),
        ("alaw", 0x55, -8),
        ("alaw", 0xAA, 32256),
        ("alaw", 0x2A, -32256),
    ],
)
def test_decoding(law: Law, code: int, value: int) -> None:
    assert decode_g711(bytes([code]), law)[0] * 32768 == value


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_encoding_a_decoded_code_gives_the_same_sound(law: Law) -> None:
    sound = decode_g711(bytes(range(256)), law)
    assert np.array_equal(decode_g711(encode_g711(sound, law), law), sound)


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_every_sample_gets_the_nearest_code(law: Law) -> None:
    samples = np.arange(-32768, 32768).astype(np.float32) / 32768
    values = np.sort(decode_g711(bytes(range(256)), law))
    nearest = np.abs(samples[:, None] - values[None, :]).min(axis=1)
    error = np.abs(decode_g711(encode_g711(samples, law), law) - samples)
    assert np.allclose(error, nearest, atol=1e-7)


def test_silence_is_ff_and_loudness_saturates() -> None:
    assert encode_g711(np.zeros(2, np.float32), "mulaw") == b"\xff\xff"
    assert decode_g711(encode_g711(np.array([3.0], np.float32), "mulaw"), "mulaw")[0] * 32768 == 32124
