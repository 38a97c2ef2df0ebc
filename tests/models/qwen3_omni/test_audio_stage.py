"""Sound becomes rows while it is spoken, and the same sound is encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.sounds import voice
from voice_omni.model_runner.interface import Chunk, Outcome, Work
from voice_omni.models.qwen3_omni.audio_encoder import encode_whole
from voice_omni.models.qwen3_omni.audio_stage import AudioRunner
from voice_omni.models.qwen3_omni.audio_tower import AudioEncoder, MelWindow
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.options import AudioEncoderOptions
from voice_omni.models.qwen3_omni.wire import ENDED, LIVE, MEDIUM, ROWS, SOUND
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import CLIENT, OmniRequest, StagePayload


class Counting(AudioEncoder):
    """Counts the windows that it is given."""

    windows = 0

    def encode(self, windows: Sequence[MelWindow]) -> list[torch.Tensor]:
        self.windows += len(windows)
        return super().encode(windows)


@pytest.fixture
def encoder(checkpoint: Checkpoint) -> Counting:
    return Counting(checkpoint, "cpu", torch.float32)


def opened(runner: AudioRunner, route: str = "speech") -> Any:
    return runner.open(StagePayload(OmniRequest(request_id="r", route=route)))


def hear(runner: AudioRunner, state: Any, *sounds: np.ndarray, ended: bool = False) -> Outcome:
    chunks = [Chunk(CLIENT, {"audio": sound}) for sound in sounds]
    [outcome] = runner.run([Work("r", state, chunks, ended)])
    return outcome


def steady(samples: int) -> np.ndarray:
    noise = np.random.default_rng(5).normal(size=samples) * np.linspace(0.2, 0.1, samples)
    return noise.astype(np.float32)


def test_each_window_comes_when_it_is_full_and_the_rest_at_the_end(encoder: Counting) -> None:
    runner = AudioRunner(encoder, AudioEncoderOptions(window_s=1))
    state, sound = opened(runner), steady(40_000)
    assert hear(runner, state, sound[:15_000]).emits == []
    [first] = hear(runner, state, sound[15_000:20_000]).emits
    outcome = hear(runner, state, sound[20_000:], ended=True)
    [rest] = outcome.emits
    assert (first.data[ROWS]["first"], len(first.data[ROWS]["heard"])) == (0, 13)
    assert (rest.data[ROWS]["first"], rest.data[ROWS]["medium"], rest.data[ROWS]["ended"]) == (13, LIVE, True)
    assert outcome.result == {}


def test_the_checkpoints_own_windows_give_what_it_gives_offline(encoder: Counting) -> None:
    runner = AudioRunner(encoder, AudioEncoderOptions(window_s=0))
    sound = voice(30_000)
    [emit] = hear(runner, opened(runner), sound, ended=True).emits
    assert distance(emit.data[ROWS]["heard"], encode_whole(encoder, [sound])[0]) <= TOLERANCE


def test_the_same_sound_again_is_remembered(encoder: Counting) -> None:
    runner = AudioRunner(encoder, AudioEncoderOptions(window_s=1))
    sound = voice(40_000)
    [first] = hear(runner, opened(runner), sound, ended=True).emits
    before = encoder.windows
    [again] = hear(runner, opened(runner), sound, ended=True).emits
    assert encoder.windows == before
    np.testing.assert_array_equal(again.data[ROWS]["heard"], first.data[ROWS]["heard"])


def test_memory_is_bounded(encoder: Counting) -> None:
    runner = AudioRunner(encoder, AudioEncoderOptions(window_s=1, remembered_windows=2))
    sound = steady(80_000)
    hear(runner, opened(runner), sound, ended=True)
    before = encoder.windows
    hear(runner, opened(runner), sound, ended=True)
    assert encoder.windows > before


def test_recordings_in_parts_are_the_whole_recording(encoder: Counting) -> None:
    runner = AudioRunner(encoder, AudioEncoderOptions(window_s=0))
    sound, state = voice(50_000), opened(runner, "text")
    chunks = [
        Chunk("preprocess", {SOUND: part, MEDIUM: 3, ENDED: last})
        for part, last in ((sound[:20_000], False), (sound[20_000:], True))
    ]
    [outcome] = runner.run([Work("r", state, chunks, True)])
    [emit] = outcome.emits
    assert emit.data[ROWS]["medium"] == 3
    assert distance(emit.data[ROWS]["heard"], encode_whole(encoder, [sound])[0]) <= TOLERANCE


def test_no_sound_at_all_is_no_speech_and_too_much_is_refused(encoder: Counting) -> None:
    runner = AudioRunner(encoder, AudioEncoderOptions(max_seconds=2))
    silent = hear(runner, opened(runner), ended=True)
    long = hear(runner, opened(runner), steady(40_000))
    assert isinstance(silent.error, OmniError)
    assert silent.error.code == "no_speech"
    assert isinstance(long.error, OmniError)
    assert long.error.code == "invalid_value"
