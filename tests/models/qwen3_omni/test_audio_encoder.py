"""Streaming through the audio tower gives what the published tower gives for the whole utterance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.sounds import cut, voice
from voice_omni.models.qwen3_omni.audio_encoder import AudioStream, encode_due, encode_whole
from voice_omni.models.qwen3_omni.audio_tower import AudioEncoder, MelWindow, row_count
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.mel import log_mel
from voice_omni.proto.errors import OmniError


@pytest.fixture(scope="module")
def encoder(checkpoint: Checkpoint) -> AudioEncoder:
    return AudioEncoder(checkpoint, "cpu", torch.float32)


def seconds(count: float) -> np.ndarray:
    return voice(round(count * 16_000))


@torch.no_grad()
def whole(published: Any, sound: np.ndarray, window: int = 800) -> torch.Tensor:
    """The published tower's rows of one utterance, with attention windows of so many frames."""
    tower = published.thinker.model.audio_tower
    before, tower.n_window_infer = tower.n_window_infer, window
    try:
        mel = log_mel(sound)
        return tower(mel, feature_lens=torch.tensor([mel.shape[1]])).last_hidden_state
    finally:
        tower.n_window_infer = before


SHAPES = [(2.0, True), (0.4, False), (1.0, True), (1.37, True), (0.7, True), (3.2, True), (2.0, True)]
"""Seconds of windows, and whether they are padded."""


def stream_of(window: int, **options: Any) -> AudioStream:
    return AudioStream(bands=128, window_frames=window, **options)


@pytest.mark.parametrize("length", [0.02, 0.4, 0.99, 1.0, 1.01, 2.37, 8.0, 9.3, 17.0])
def test_a_whole_utterance_equals_the_published_tower(encoder: AudioEncoder, published: Any, length: float) -> None:
    sound = seconds(length)
    (rows,) = encode_whole(encoder, [sound])
    assert rows.shape == (row_count(len(sound) // 160), 64)
    assert distance(rows, whole(published, sound)) < TOLERANCE


def test_utterances_in_one_batch_do_not_change_each_other(encoder: AudioEncoder) -> None:
    """Not even one that is too short to be padded, beside one that is long."""
    sounds = [seconds(length) for length in (0.4, 9.3, 1.0, 0.7, 2.37)]
    together = encode_whole(encoder, sounds)
    for sound, rows in zip(sounds, together, strict=True):
        (alone,) = encode_whole(encoder, [sound])
        assert distance(rows, alone) < 1e-5


@pytest.mark.parametrize("counts", [(1, 4), (3,), (100,), ()])
def test_prepared_numbers_of_windows_give_the_same_rows(
    encoder: AudioEncoder, checkpoint: Checkpoint, counts: tuple[int, ...]
) -> None:
    """More and fewer than were prepared, whole and short, and such as have no place in what was prepared."""
    prepared = AudioEncoder(checkpoint, "cpu", torch.float32)
    prepared.prepare(counts, chunks=2)
    windows = [MelWindow(log_mel(seconds(length)), padded) for length, padded in SHAPES]
    expected = encoder.encode(windows)
    for order in (slice(None), slice(1), slice(2, 5)):
        for rows, alone in zip(prepared.encode(windows[order]), expected[order], strict=True):
            assert distance(rows, alone) < 1e-5
    for rows in (*prepared.encode(windows), *encoder.encode(windows)):
        assert rows.untyped_storage().nbytes() == rows.nbytes, "what is kept of a batch does not keep the others"
    first = prepared.encode(windows[:1])[0]
    kept = first.clone()
    prepared.encode(windows[1:2])
    assert torch.equal(first, kept), "what was given out is not written to again"


def test_sound_that_is_held_makes_no_difference_to_a_fork(encoder: AudioEncoder, published: Any) -> None:
    sound = seconds(1.6)
    stream = stream_of(100)
    stream.push(sound[:20_000])
    stream.push(sound[20_000:20_500])
    twin = stream.fork()
    stream.push(np.zeros(500, np.float32))
    twin.push(sound[20_500:])
    twin.finish()
    encode_due(encoder, [twin])
    assert distance(twin.rows(), whole(published, sound, 100)) < TOLERANCE


def test_sound_may_be_written_over_when_it_has_been_pushed(encoder: AudioEncoder, published: Any) -> None:
    sound = seconds(1.6)
    stream, buffer = stream_of(100), np.empty(320, np.float32)
    for start in range(0, len(sound), 320):
        buffer[:] = sound[start : start + 320]
        stream.push(buffer)
    stream.finish()
    encode_due(encoder, [stream])
    assert distance(stream.rows(), whole(published, sound, 100)) < TOLERANCE


@settings(max_examples=25)
@given(st.sampled_from([100, 200, 800]), st.integers(201, 11 * 16_000), st.data())
def test_any_pieces_of_sound_give_the_rows_of_the_whole(
    encoder: AudioEncoder, published: Any, window: int, samples: int, data: st.DataObject
) -> None:
    sound = voice(samples)
    stream = stream_of(window)
    heard = torch.zeros(0, 64)
    for piece in cut(sound, data):
        stream.push(piece)
        for start, rows in encode_due(encoder, [stream])[0]:
            heard = torch.cat((heard[:start], rows, heard[start + len(rows) :]))
    stream.finish()
    for start, rows in encode_due(encoder, [stream])[0]:
        heard = torch.cat((heard[:start], rows, heard[start + len(rows) :]))
    assert stream.count == len(heard) == row_count(samples // 160)
    assert torch.equal(stream.rows(), heard)
    assert distance(heard, whole(published, sound, window)) < TOLERANCE


def test_a_second_is_encoded_when_it_is_heard(encoder: AudioEncoder) -> None:
    stream = stream_of(100)
    stream.push(seconds(1.0))
    assert stream.due() == []
    stream.push(np.zeros(40, np.float32))
    ((start, rows),) = encode_due(encoder, [stream])[0]
    assert (start, len(rows)) == (0, 13)
    assert stream.due() == []


def test_a_rising_maximum_brings_back_only_what_it_changes(encoder: AudioEncoder) -> None:
    """The floor follows the loudest frame: windows with something below it are encoded again."""
    quiet, loud = 1e-3 * seconds(1.1), np.concatenate((np.zeros(4000, np.float32), 10 * seconds(1.0)))
    stream, tolerant = stream_of(100), stream_of(100, tolerance=9.0)
    for each in (stream, tolerant):
        each.push(quiet)
        encode_due(encoder, [each])
        each.push(loud)
    assert [due.index for due in stream.due()] == [0, 1]
    assert [due.index for due in tolerant.due()] == [1]
    encode_due(encoder, [stream])
    stream.push(quiet)
    assert [due.index for due in stream.due()] == [2]


def test_a_fork_may_end_while_the_utterance_goes_on(encoder: AudioEncoder, published: Any) -> None:
    sound = seconds(3.5)
    stream = stream_of(100)
    stream.push(sound[:36_000])
    encode_due(encoder, [stream])
    ended = stream.fork()
    ended.finish()
    assert [due.index for due in ended.due()] == [2], "what is encoded is shared"
    encode_due(encoder, [ended])
    stream.push(sound[36_000:])
    stream.finish()
    encode_due(encoder, [stream])
    assert distance(ended.rows(), whole(published, sound[:36_000], 100)) < TOLERANCE
    assert distance(stream.rows(), whole(published, sound, 100)) < TOLERANCE


def test_streams_are_encoded_in_one_batch(encoder: AudioEncoder) -> None:
    sounds = [voice(index * 17_000, start=5000 * index) for index in range(3)]

    def heard(sound: np.ndarray) -> AudioStream:
        stream = stream_of(100)
        stream.push(sound)
        return stream

    changed = encode_due(encoder, [heard(sound) for sound in sounds])
    assert [[start for start, _ in each] for each in changed] == [[], [0], [0, 13]]
    for sound, together in zip(sounds, changed, strict=True):
        (alone,) = encode_due(encoder, [heard(sound)])
        assert all(distance(row, other) < 1e-5 for (_, row), (_, other) in zip(together, alone, strict=True))


def test_an_utterance_may_not_last_for_ever() -> None:
    stream = stream_of(100, max_seconds=2)
    stream.push(seconds(1.9))
    with pytest.raises(OmniError, match="longer than 2 seconds") as caught:
        stream.push(seconds(0.2))
    assert caught.value.code == "invalid_value"


def test_too_little_sound_is_refused() -> None:
    stream = stream_of(100)
    stream.push(voice(100))
    with pytest.raises(OmniError, match="100 samples"):
        stream.finish()
