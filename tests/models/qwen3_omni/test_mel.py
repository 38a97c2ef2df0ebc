"""The spectrogram is that of the published feature extractor, and the same however the sound arrives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import WhisperFeatureExtractor

from tests.models.qwen3_omni.compare import distance
from tests.models.qwen3_omni.sounds import cut, voice
from voice_omni.models.qwen3_omni.mel import SHORTEST, MelStream, log_mel, scaled
from voice_omni.proto.errors import OmniError

EXTRACTOR = WhisperFeatureExtractor(feature_size=128)


def published(samples: np.ndarray) -> torch.Tensor:
    features = EXTRACTOR(samples, sampling_rate=16_000, padding=True, truncation=False, return_tensors="pt")
    return features.input_features[0]


@pytest.mark.parametrize("samples", [201, 319, 320, 360, 16_000, 16_039, 16_040, 37_920, 160_001])
def test_it_equals_the_published_one(samples: int) -> None:
    sound = voice(samples)
    assert log_mel(sound).shape == (128, samples // 160)
    assert distance(log_mel(sound), published(sound)) < 1e-5


def test_silence_is_as_loud_as_its_floor() -> None:
    silence = np.zeros(4000, np.float32)
    assert distance(log_mel(silence), published(silence)) == 0


@given(st.integers(SHORTEST, 6000), st.data())
def test_pieces_of_sound_give_the_frames_of_the_whole(samples: int, data: st.DataObject) -> None:
    sound = voice(samples)
    stream = MelStream()
    frames = [stream.push(piece) for piece in cut(sound, data)]
    frames.append(stream.finish())
    assert distance(scaled(torch.cat(frames, dim=1), stream.maximum), log_mel(sound)) < 1e-5


def test_a_frame_comes_as_soon_as_its_window_is_there() -> None:
    stream = MelStream()
    assert stream.push(voice(16_039)).shape[1] == 99
    assert stream.push(voice(1)).shape[1] == 1


def test_too_little_sound_is_refused() -> None:
    with pytest.raises(OmniError, match="200 samples") as caught:
        log_mel(voice(SHORTEST - 1))
    assert caught.value.code == "invalid_value"
