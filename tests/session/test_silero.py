"""The judge: windows, context and state as its authors feed them."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort

from tests.support.speech import recording
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.silero import WINDOW, SileroModel, SileroStream
from voice_omni.session.weights import SILERO_VAD
from voice_omni.weights import fetch


def test_the_probabilities_are_those_of_the_network_fed_by_its_own_rules(silero: SileroModel) -> None:
    samples = recording("human-07").samples(16000)
    session = ort.InferenceSession(str(fetch(SILERO_VAD, quiet=True) / SILERO_VAD.files[0]))
    padded = np.concatenate([np.zeros(64, np.float32), samples])
    state = np.zeros((2, 1, 128), np.float32)
    stream = SileroStream(silero)
    for start in range(0, len(samples) - WINDOW + 1, WINDOW):
        feed = {"input": padded[None, start : start + 64 + WINDOW], "state": state, "sr": np.array(16000, np.int64)}
        expected, state = session.run(None, feed)
        assert stream.probability(samples[start : start + WINDOW]) == float(expected[0, 0])


def test_two_streams_do_not_hear_each_other(silero: SileroModel) -> None:
    samples = recording("question-01").samples(16000)
    windows = [samples[start : start + WINDOW] for start in range(0, len(samples) - WINDOW, WINDOW)]
    alone = SileroStream(silero)
    expected = [alone.probability(window) for window in windows]
    one, other = SileroStream(silero), SileroStream(silero)
    mixed = []
    for window, later in zip(windows, reversed(windows), strict=True):
        mixed.append(one.probability(window))
        other.probability(later)
    assert mixed == expected


def test_the_judge_sleeps_while_the_gate_hears_nothing(silero: SileroModel) -> None:
    activity = VoiceActivity(silero)
    asleep = 0
    for window in activity.windows(np.zeros(16000 * 3, np.float32)):
        asleep += activity.judge(window, engaged=False).probability == 0.0
    assert asleep > 80  # of 93: the gate needs a moment to settle


def test_a_judge_that_wakes_up_agrees_with_one_that_never_slept(silero: SileroModel) -> None:
    samples = np.concatenate([np.zeros(32000, np.float32), recording("question-05").samples(16000)])
    activity, always = VoiceActivity(silero), SileroStream(silero)
    for window in activity.windows(samples):
        frame, expected = activity.judge(window, engaged=False), always.probability(window)
        assert abs(frame.probability - expected) < 0.5 or expected < 0.5
