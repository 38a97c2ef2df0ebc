"""The streaming resampler: exact under any cut, short, and as clean as speech needs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler

RATES = [(24000, 16000), (16000, 24000), (22050, 24000), (8000, 16000), (24000, 8000), (48000, 16000), (44100, 24000)]


def _convert(samples: Samples, source: int, target: int, cuts: list[int] | None = None) -> Samples:
    resampler = StreamResampler(source, target)
    borders = [0, *sorted(cut % (len(samples) + 1) for cut in cuts or []), len(samples)]
    pieces = [resampler.push(samples[start:end]) for start, end in itertools.pairwise(borders)]
    return np.concatenate([*pieces, resampler.flush()])


def _tone(hertz: float, rate: int, seconds: float = 0.5) -> Samples:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


@settings(deadline=None)
@given(rates=st.sampled_from(RATES), length=st.integers(0, 3000), cuts=st.lists(st.integers(0, 3000), max_size=12))
def test_any_cut_gives_the_same_samples_bit_for_bit(rates: tuple[int, int], length: int, cuts: list[int]) -> None:
    samples = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    assert np.array_equal(_convert(samples, *rates, cuts), _convert(samples, *rates))


@pytest.mark.parametrize(("source", "target"), RATES)
@pytest.mark.parametrize("length", [0, 1, 479, 480, 1001])
def test_the_length_is_the_duration(source: int, target: int, length: int) -> None:
    assert len(_convert(np.ones(length, np.float32), source, target)) == -(-length * target // source)


@pytest.mark.parametrize(("source", "target"), RATES)
@pytest.mark.parametrize("hertz", [100, 440, 3000])
def test_a_tone_stays_what_and_where_it_is(source: int, target: int, hertz: float) -> None:
    converted, expected = _convert(_tone(hertz, source), source, target), _tone(hertz, target)
    inner = slice(target // 50, -target // 50)
    error = converted[inner] - expected[inner]
    assert np.sqrt(np.mean(error**2)) < 10 ** (-75 / 20) * 0.35  # 75 dB below the tone


@pytest.mark.parametrize(("source", "target"), [(24000, 16000), (24000, 8000), (48000, 16000)])
def test_what_the_lower_rate_cannot_hold_is_gone_and_not_folded_down(source: int, target: int) -> None:
    converted = _convert(_tone(target * 0.55, source), source, target)
    inner = converted[target // 50 : -target // 50]
    assert np.sqrt(np.mean(inner**2)) < 10 ** (-70 / 20) * 0.35


@pytest.mark.parametrize(("source", "target"), RATES)
def test_no_more_than_4_ms_is_held_back(source: int, target: int) -> None:
    resampler = StreamResampler(source, target)
    out = len(resampler.push(np.zeros(source, np.float32)))
    assert target - out <= 0.004 * target


def test_equal_rates_pass_through() -> None:
    samples = _tone(440, 16000)
    assert np.array_equal(_convert(samples, 16000, 16000), samples)


def test_a_flushed_resampler_begins_a_new_stream() -> None:
    resampler = StreamResampler(24000, 16000)
    samples = _tone(440, 24000)
    first = np.concatenate([resampler.push(samples), resampler.flush()])
    second = np.concatenate([resampler.push(samples), resampler.flush()])
    assert np.array_equal(first, second)
