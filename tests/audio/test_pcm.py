"""PCM bytes and samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_omni.audio.pcm import SampleAligner, decode_pcm16, encode_pcm16, level_dbfs


def test_every_16_bit_value_survives_decoding_and_encoding() -> None:
    data = np.arange(-32768, 32768).astype("<i2").tobytes()
    assert encode_pcm16(decode_pcm16(data)) == data


def test_too_loud_samples_saturate_instead_of_wrapping() -> None:
    assert encode_pcm16(np.array([1.5, -1.5], np.float32)) == np.array([32767, -32768], "<i2").tobytes()


@settings(deadline=None)
@given(data=st.binary(max_size=64), cuts=st.lists(st.integers(0, 64), max_size=8))
def test_an_aligner_gives_whole_samples_and_loses_nothing_whatever_the_cuts(data: bytes, cuts: list[int]) -> None:
    aligner = SampleAligner(2)
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [aligner.push(data[start:end]) for start, end in itertools.pairwise(borders)]
    assert all(len(piece) % 2 == 0 for piece in pieces)
    assert b"".join(pieces) == data[: len(data) - len(data) % 2]


def test_a_reset_drops_the_half_sample() -> None:
    aligner = SampleAligner(2)
    aligner.push(b"\x01\x02\x03")
    aligner.reset()
    assert aligner.push(b"\x04\x05") == b"\x04\x05"


def test_levels() -> None:
    assert level_dbfs(np.full(100, 0.1, np.float32)) == pytest.approx(-20, abs=1e-4)
    assert level_dbfs(np.zeros(10, np.float32)) == -math.inf
    assert level_dbfs(np.zeros(0, np.float32)) == -math.inf
