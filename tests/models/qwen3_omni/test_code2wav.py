"""However a stream of frames is cut, its samples are those of the published decoder for the whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav import StreamDecoder
from voice_omni.proto.errors import OmniError

HOP, TRIM, SLOTS = 1920, 555, 4


@pytest.fixture(scope="module")
def decoder(checkpoint: Checkpoint) -> StreamDecoder:
    return StreamDecoder(checkpoint, SLOTS, "cpu", torch.float32)


@cache
def codes(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 64, (frames, 16))


@torch.no_grad()
def whole(published: Any, frames: np.ndarray) -> np.ndarray:
    """One decode of all frames, float32 ``[n]``."""
    return published.code2wav(torch.from_numpy(frames.T[None])).numpy()[0, 0]


def decoded(decoder: StreamDecoder, frames: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """One stream alone, in pieces of these sizes and what is left."""
    slot = decoder.open()
    pieces = [piece for piece in np.split(frames, np.cumsum(sizes)) if len(piece)]
    samples = [decoder.decode([(slot, piece)])[0] for piece in pieces]
    decoder.close(slot)
    return np.concatenate(samples)


def test_the_first_piece_lacks_what_the_upsampling_holds_back(decoder: StreamDecoder) -> None:
    assert (decoder.frame_samples, decoder.trim) == (HOP, TRIM)
    slot = decoder.open()
    lengths = [len(decoder.decode([(slot, codes(size))])[0]) for size in (1, 1, 3)]
    decoder.close(slot)
    assert lengths == [HOP - TRIM, HOP, 3 * HOP]


@pytest.mark.parametrize("frames", [1, 2, 30, 72, 73])
def test_one_piece_equals_the_published_decoder(decoder: StreamDecoder, published: Any, frames: int) -> None:
    assert distance(decoded(decoder, codes(frames), [frames]), whole(published, codes(frames))) < TOLERANCE


@pytest.mark.parametrize("sizes", [[1] * 100 + [37] * 15, [1, 2, 4, 8, 16] + [25] * 25, [300, 300]])
def test_a_stream_far_longer_than_the_window(decoder: StreamDecoder, published: Any, sizes: list[int]) -> None:
    """650 frames: nine windows of attention, and more than all layers together can see."""
    assert distance(decoded(decoder, codes(650), sizes), whole(published, codes(650))) < TOLERANCE


@settings(max_examples=20)
@given(st.integers(1, 100), st.lists(st.integers(1, 40), max_size=12))
def test_any_cut_gives_the_same_samples(decoder: StreamDecoder, published: Any, frames: int, sizes: list[int]) -> None:
    assert distance(decoded(decoder, codes(frames), sizes), whole(published, codes(frames))) < TOLERANCE


@settings(max_examples=10)
@given(st.data())
def test_neighbours_in_a_batch_change_nothing(decoder: StreamDecoder, published: Any, data: st.DataObject) -> None:
    """Streams begin, run in pieces of different lengths, and are given up at any time."""
    streams = [codes(data.draw(st.integers(1, 30)), seed) for seed in range(SLOTS)]
    given_up = data.draw(st.sets(st.integers(0, SLOTS - 1), max_size=2))
    slots = {index: decoder.open() for index in range(SLOTS)}
    try:
        _together(decoder, published, streams, given_up, slots, data)
    finally:
        for slot in slots.values():
            decoder.close(slot)


def _together(
    decoder: StreamDecoder,
    published: Any,
    streams: Sequence[np.ndarray],
    given_up: set[int],
    slots: dict[int, int],
    data: st.DataObject,
) -> None:
    """Takes a stream out of ``slots`` when it has closed it."""
    heard: dict[int, list[np.ndarray]] = {index: [] for index in range(SLOTS)}
    done = dict.fromkeys(range(SLOTS), 0)
    while slots:
        chosen = data.draw(st.lists(st.sampled_from(sorted(slots)), min_size=1, unique=True))
        batch = []
        for index in chosen:
            size = data.draw(st.integers(1, len(streams[index]) - done[index]))
            batch.append((slots[index], streams[index][done[index] : done[index] + size]))
            done[index] += size
        for index, samples in zip(chosen, decoder.decode(batch), strict=True):
            heard[index].append(samples)
            if done[index] == len(streams[index]) or index in given_up:
                decoder.close(slots.pop(index))
    for index, pieces in heard.items():
        samples = np.concatenate(pieces)
        assert distance(samples, whole(published, streams[index])[: len(samples)]) < TOLERANCE
        assert len(samples) == done[index] * HOP - TRIM


def test_a_slot_remembers_nothing_of_the_stream_before(checkpoint: Checkpoint, published: Any) -> None:
    decoder = StreamDecoder(checkpoint, 1, "cpu", torch.float32)
    for seed in range(3):
        assert distance(decoded(decoder, codes(9, seed), [2, 3]), whole(published, codes(9, seed))) < TOLERANCE


def test_memory_is_bounded_by_the_slots(checkpoint: Checkpoint) -> None:
    decoder = StreamDecoder(checkpoint, 2, "cpu", torch.float32)
    slots = [decoder.open(), decoder.open()]
    with pytest.raises(OmniError) as caught:
        decoder.open()
    assert caught.value.code == "overloaded"
    assert caught.value.info.retryable
    decoder.close(slots[0])
    assert decoder.open() == slots[0]


@pytest.mark.parametrize("wrong", [np.zeros((3, 15), int), np.zeros(16, int), codes(2) + 63, codes(2) - 63])
def test_what_are_no_codes_is_refused(decoder: StreamDecoder, wrong: np.ndarray) -> None:
    with pytest.raises(OmniError, match="codes"):
        decoder.check(wrong)


def test_a_checkpoint_that_only_writes_has_no_sound(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "config", msgspec.structs.replace(checkpoint.config, code2wav=None))
    with pytest.raises(OmniError, match="only writes"):
        StreamDecoder(checkpoint, 1, "cpu", torch.float32)
