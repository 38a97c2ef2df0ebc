"""The voice model and its parts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from voice_omni.models.starter.acoustics import Acoustics, Delivery
from voice_omni.models.starter.voice import FRAME_SAMPLES, Model, Voice, open_voice
from voice_omni.models.starter.voice_graph import PARTS, cut, extract
from voice_omni.models.starter.weights import JOE_VOICE
from voice_omni.proto.errors import OmniError
from voice_omni.weights import fetch

STILL = Delivery(speed=1.0, noise_scale=0.0, noise_w=0.0, seed=(0,))


@pytest.fixture(scope="module")
def voice() -> Voice:
    return open_voice()


@pytest.fixture(scope="module")
def acoustics(voice: Voice) -> Acoustics:
    return Acoustics(voice, threads=1)


def test_without_noise_the_parts_give_the_samples_of_the_uncut_model(voice: Voice, acoustics: Acoustics) -> None:
    phonemes = voice.phoneme_ids("həlˈoʊ ðɛɹ, hˌaʊ ɑːɹ juː?")
    utterance = acoustics.speak(phonemes, STILL)
    decoder = Model(voice.folder / "decoder.onnx", 1)
    (ours,) = decoder.run(["samples"], {"latents": utterance.latents.T[None]})

    whole = Model(fetch(JOE_VOICE) / "en_US-joe-medium.onnx", 1)
    ids = np.array([voice.sequence(phonemes)], np.int64)
    inputs = {"input": ids, "input_lengths": np.array([ids.shape[1]]), "scales": np.array([0, 1, 0], np.float32)}
    (theirs,) = whole.run(None, inputs)
    assert np.abs(ours.ravel() - theirs.ravel()).max() < 1e-6
    assert ours.size == len(utterance.latents) * FRAME_SAMPLES


def test_no_part_draws_random_numbers(voice: Voice) -> None:
    for name in PARTS:
        graph = onnx.load(str(voice.folder / f"{name}.onnx")).graph
        assert not [node.op_type for node in graph.node if "Random" in node.op_type]


def test_the_seed_decides_the_noise(voice: Voice, acoustics: Acoustics) -> None:
    phonemes = voice.phoneme_ids("həlˈoʊ")
    lively = Delivery(speed=1.0, noise_scale=0.667, noise_w=0.8, seed=(1, 0))
    first, again = acoustics.speak(phonemes, lively), acoustics.speak(phonemes, lively)
    assert np.array_equal(first.latents, again.latents)
    other = acoustics.speak(phonemes, Delivery(speed=1.0, noise_scale=0.667, noise_w=0.8, seed=(1, 1)))
    assert not np.array_equal(first.latents[:20], other.latents[:20])


def test_phonemes_begin_in_order_and_speed_shortens_them(voice: Voice, acoustics: Acoustics) -> None:
    phonemes = voice.phoneme_ids("həlˈoʊ ðɛɹ.")
    usual = acoustics.speak(phonemes, STILL)
    fast = acoustics.speak(phonemes, Delivery(speed=2.0, noise_scale=0.0, noise_w=0.0, seed=(0,)))
    assert len(usual.starts) == len(phonemes)
    assert (np.diff(usual.starts) > 0).all()
    assert usual.starts[-1] < len(usual.latents)
    assert 0.4 < len(fast.latents) / len(usual.latents) < 0.75


def test_no_sentence_makes_the_voice_wait(voice: Voice, acoustics: Acoustics) -> None:
    """Left to itself, it is silent for 36 frames before this one."""
    utterance = acoustics.speak(voice.phoneme_ids("maɪ fˈoʊn nˈʌmbɚɹ ɪz fˈoːɹ wˈʌn fˈaɪv, fˈaɪv fˈaɪv fˈaɪv."), STILL)
    assert utterance.starts[0] <= 8


def test_an_unknown_phoneme_is_named(voice: Voice) -> None:
    with pytest.raises(OmniError, match="€"):
        voice.phoneme_ids("h€")


def test_a_model_of_another_shape_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["input"], ["output"])
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "other", [port("input", TensorProto.FLOAT, [1])], [port("output", TensorProto.FLOAT, [1])]
    )
    model = helper.make_model(graph)
    with pytest.raises(OmniError) as failure:
        extract(model, "decoder", PARTS["decoder"])
    assert failure.value.code == "invalid_weights"
    onnx.save(model, str(tmp_path / "other.onnx"))
    with pytest.raises(OmniError):
        cut(tmp_path / "other.onnx", tmp_path)


def test_a_run_can_be_interrupted_and_the_next_one_is_whole(voice: Voice) -> None:
    decoder = Model(voice.folder / "decoder.onnx", 1)
    latents = np.random.default_rng(0).standard_normal((1, 192, 40)).astype(np.float32)
    (before,) = decoder.run(["samples"], {"latents": latents})
    endless = np.zeros((1, 192, 4_000), np.float32)
    timer = threading.Timer(0.2, decoder.interrupt)
    timer.start()
    with pytest.raises(OmniError) as raised:
        decoder.run(["samples"], {"latents": endless})
    assert raised.value.code == "aborted"
    (after,) = decoder.run(["samples"], {"latents": latents})
    assert np.array_equal(before, after)
