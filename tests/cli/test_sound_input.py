"""Where the person's sound comes from."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.cli.sound_input import FRAME, demo_recording, play_recording, read_recording
from voice_omni.proto.errors import OmniError


def tone(rate: int, seconds: float = 1.0) -> Samples:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(round(rate * seconds)) / rate)).astype(np.float32)


def pitch(samples: Samples, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * rate / len(samples)


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (16_000, 1), (24_000, 2), (44_100, 2)])
def test_any_rate_and_number_of_channels_becomes_24_khz_mono(tmp_path: Path, rate: int, channels: int) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, np.repeat(tone(rate)[:, None], channels, axis=1), rate)
    samples = read_recording(str(path))
    assert samples.dtype == np.float32
    assert samples.shape == (24_000,)
    assert pitch(samples, 24_000) == pytest.approx(440, abs=1)


def test_standard_input_may_be_raw_pcm_or_a_wav_file(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tone(24_000)
    wav = io.BytesIO()
    soundfile.write(wav, expected, 24_000, format="WAV")
    for content in (encode_pcm16(expected) + b"\x01", wav.getvalue()):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        np.testing.assert_allclose(read_recording("-"), expected, atol=1e-4)


def test_the_package_brings_a_recording_along() -> None:
    samples = read_recording(str(demo_recording()))
    assert 2.0 < len(samples) / 24_000 < 5.0


def test_a_missing_or_unreadable_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match="there is no recording /absent"):
        read_recording("/absent")
    path = tmp_path / "text.wav"
    path.write_text("not sound")
    with pytest.raises(OmniError, match=r"cannot read .*text\.wav as sound"):
        read_recording(str(path))


async def test_a_recording_is_played_in_frames_and_silence_follows() -> None:
    ended = asyncio.Event()
    recording = tone(24_000, 0.07)
    frames: list[Samples] = []
    async for frame in play_recording(recording, ended):
        frames.append(frame)
        if ended.is_set():
            break
    assert [len(frame) for frame in frames] == [FRAME] * 5
    np.testing.assert_array_equal(np.concatenate(frames)[: len(recording)], recording)
    assert not np.concatenate(frames)[len(recording) :].any()


async def test_no_frame_comes_before_it_would_have_been_spoken() -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    number = 0
    async for _ in play_recording(tone(24_000, 0.2), asyncio.Event()):
        number += 1
        assert clock() - began >= number * 0.02 - 0.002
        if number == 8:
            break
