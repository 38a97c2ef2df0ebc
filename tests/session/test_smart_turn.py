"""Smart Turn: the same features as the reference, and judgements that make sense."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from tests.support.speech import recording
from voice_omni.audio.pcm import Samples
from voice_omni.session.smart_turn import SPAN, SmartTurnModel, features


@pytest.mark.parametrize("seconds", [0.0, 1.3, 8.0, 11.0])
def test_the_features_are_whispers(seconds: float) -> None:
    samples = np.tile(recording("human-01").samples(16000), 3)[: int(seconds * 16000)]
    span = np.concatenate([np.zeros(max(0, SPAN - len(samples)), np.float32), samples[-SPAN:]])
    extractor = WhisperFeatureExtractor(chunk_length=8)
    expected = extractor(span, sampling_rate=16000, do_normalize=True, return_tensors="np").input_features[0]
    assert features(samples).shape == expected.shape == (80, 800)
    np.testing.assert_allclose(features(samples), expected, atol=1e-4)


def upto(name: str, share: float) -> Samples:
    """The recording up to a share of its speech, faded out in 30 ms, and 256 ms of silence."""
    each = recording(name)
    end = each.speech_start + share * (each.speech_end - each.speech_start)
    speech = each.samples(16000)[: int(end * 16000)].copy()
    speech[-480:] *= np.linspace(1, 0, 480, dtype=np.float32)
    return np.concatenate([speech, np.zeros(4096, np.float32)])


@pytest.mark.parametrize(
    ("name", "share"),
    [("question-02", 0.7), ("question-05", 0.7), ("question-06", 0.45), ("human-11", 0.45), ("human-13", 0.7)],
)
def test_a_whole_sentence_is_complete_and_a_part_of_it_is_not(
    smart_turn: SmartTurnModel, name: str, share: float
) -> None:
    assert smart_turn.probability(upto(name, 1.0)) > 0.7
    assert smart_turn.probability(upto(name, share)) < 0.2
