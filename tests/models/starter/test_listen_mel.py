from __future__ import annotations

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from tests.support.speech import recordings
from voice_omni.models.starter.listen_mel import HOP, MAX_FRAMES, SAMPLE_RATE, Floats, log_mel

RNG = np.random.default_rng(0)
SOUNDS = {
    "speech": recordings()[0].samples(SAMPLE_RATE),
    "noise": RNG.normal(0, 0.1, 3 * SAMPLE_RATE).astype(np.float32),
    "faint noise": RNG.normal(0, 1e-5, SAMPLE_RATE).astype(np.float32),
    "silence": np.zeros(SAMPLE_RATE, np.float32),
    "a click": np.eye(1, SAMPLE_RATE, 8000, dtype=np.float32)[0],
    "two frames": RNG.normal(0, 0.1, 2 * HOP).astype(np.float32),
    "part of a frame": RNG.normal(0, 0.1, 20 * HOP + 77).astype(np.float32),
}


@pytest.mark.parametrize("sound", SOUNDS.values(), ids=SOUNDS)
@pytest.mark.parametrize("padding", [0, 1, 50, 600])
def test_it_is_the_reference_extractors_spectrogram(sound: Floats, padding: int) -> None:
    frames = len(sound) // HOP
    features = log_mel(sound, padding)
    # The reference always pads to thirty seconds; the loudest frame, which sets the floor, is in the sound.
    whole = WhisperFeatureExtractor()(sound, sampling_rate=SAMPLE_RATE, return_tensors="np").input_features[0]
    assert features.shape == (80, frames + padding)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, whole[:, : frames + padding], atol=1e-4)


def test_thirty_seconds_are_the_references_whole_input() -> None:
    sound = SOUNDS["speech"]
    assert log_mel(sound, MAX_FRAMES - len(sound) // HOP).shape == (80, MAX_FRAMES)
