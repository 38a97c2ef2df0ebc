"""Where speech ends in a recording."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from voice_omni.cli.sound_input import demo_recording
from voice_omni.cli.speech_end import speech_end


def test_the_demo_recording_ends_where_its_label_says() -> None:
    samples, rate = soundfile.read(demo_recording(), dtype="float32")
    assert speech_end(samples, rate) == pytest.approx(2.13, abs=0.03)


def test_noise_far_below_the_speech_does_not_count() -> None:
    noise = np.random.default_rng(1).normal(0, 0.001, 24_000).astype(np.float32)
    noise[4_800:12_000] += 0.5
    assert speech_end(noise, 24_000) == pytest.approx(0.5)


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.zeros(24_000, np.float32)])
def test_silence_has_no_end_of_speech(samples: np.ndarray) -> None:
    assert speech_end(samples, 24_000) is None
