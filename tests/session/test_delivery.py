"""From the pipeline's chunks to the client's bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_omni.audio.g711 import decode_g711
from voice_omni.audio.pcm import decode_pcm16
from voice_omni.client.interface import AudioDelta
from voice_omni.realtime.settings import AudioFormat, Pcm, Pcma, Pcmu
from voice_omni.session.delivery import SpeechEncoder, split


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 22050), max_size=10))
def test_the_bytes_do_not_depend_on_the_chunks(cuts: list[int]) -> None:
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(22050) / 22050)).astype(np.float32)
    whole, pieces = SpeechEncoder(22050, Pcm()), SpeechEncoder(22050, Pcm())
    borders = [0, *sorted(cuts), len(tone)]
    cut = b"".join(pieces.push(tone[start:end]) for start, end in itertools.pairwise(borders))
    assert cut + pieces.flush() == whole.push(tone) + whole.flush()


def _frequency(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 16 * len(samples)))
    return float(np.argmax(spectrum) * rate / (16 * len(samples)))


@pytest.mark.parametrize("audio_format", [Pcm(), Pcmu(), Pcma()])
def test_a_tone_keeps_its_pitch_and_its_length(audio_format: AudioFormat) -> None:
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(22050) / 22050)).astype(np.float32)
    encoder = SpeechEncoder(22050, audio_format)
    data = encoder.push(tone) + encoder.flush()
    if isinstance(audio_format, Pcm):
        samples, rate = decode_pcm16(data), 24000
    else:
        samples, rate = decode_g711(data, "alaw" if isinstance(audio_format, Pcma) else "mulaw"), 8000
    assert len(samples) == rate
    assert _frequency(samples, rate) == pytest.approx(440, abs=1)


@pytest.mark.parametrize(("audio_format", "code"), [(Pcm(), 0x00), (Pcmu(), 0xFF), (Pcma(), 0xD5)])
def test_silence_is_silent_to_its_last_byte(audio_format: AudioFormat, code: int) -> None:
    encoder = SpeechEncoder(22050, audio_format)
    data = encoder.push(np.zeros(1001, np.float32)) + encoder.flush()
    assert set(data) == {code}


def test_splitting_keeps_every_sample_and_puts_each_mark_where_it_points() -> None:
    delta = AudioDelta(np.arange(10, dtype=np.float32), ((0, "a"), (3, "b"), (4, "c"), (10, "d")))
    pieces = list(split(delta, 4))
    assert [len(piece.samples) for piece in pieces] == [4, 4, 2]
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), delta.samples)
    assert [piece.marks for piece in pieces] == [((0, "a"), (3, "b")), ((0, "c"),), ((2, "d"),)]


def test_a_chunk_without_samples_keeps_its_marks() -> None:
    [piece] = split(AudioDelta(np.zeros(0, np.float32), ((0, "a"),)), 4)
    assert piece.marks == ((0, "a"),)
