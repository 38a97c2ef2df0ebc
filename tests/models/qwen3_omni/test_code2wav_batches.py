"""Batches that are filled up to prepared sizes sound like those that are not; on a GPU each size is a CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.qwen3_omni.compare import distance
from tests.models.qwen3_omni.test_code2wav import HOP, TRIM, codes, decoded, whole
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav import StreamDecoder
from voice_omni.models.qwen3_omni.code2wav_batches import Batches, Piece, Size, grid
from voice_omni.models.qwen3_omni.code2wav_network import Code2Wav
from voice_omni.models.qwen3_omni.layout import Part
from voice_omni.models.qwen3_omni.options import Code2WavOptions
from voice_omni.proto.errors import OmniError

SLOTS = 5
ROUNDING = 1e-5
"""A product of matrices of another size may add in another order."""
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

SIZES = [Size(1, 1, True), Size(3, 1, True), Size(1, 1, False), Size(2, 2, False), Size(4, 3, False)]
"""Leave gaps, and are less than what comes: five streams, and pieces of up to six frames."""


def built(checkpoint: Checkpoint, slots: int = SLOTS, sizes: Sequence[Size] = ()) -> StreamDecoder:
    return StreamDecoder(checkpoint, slots, DEVICE, torch.float32, sizes)


@pytest.fixture(scope="module")
def plain(checkpoint: Checkpoint) -> StreamDecoder:
    return built(checkpoint)


@pytest.fixture(scope="module")
def filled(checkpoint: Checkpoint) -> StreamDecoder:
    return built(checkpoint, sizes=SIZES)


@settings(max_examples=15)
@given(st.data())
def test_no_cut_mixture_or_reused_slot_changes_a_sample(
    plain: StreamDecoder, filled: StreamDecoder, data: st.DataObject
) -> None:
    """Streams begin at any time beside others, in slots that others had, and end in the middle."""
    pairs: dict[int, tuple[int, int]] = {}
    try:
        for step in range(data.draw(st.integers(1, 6), "steps")):
            for stream in data.draw(st.sets(st.sampled_from(sorted(pairs)))) if pairs else ():
                for decoder, slot in zip((plain, filled), pairs.pop(stream), strict=True):
                    decoder.close(slot)
            for number in range(data.draw(st.integers(0 if pairs else 1, SLOTS - len(pairs)), "new")):
                pairs[SLOTS * step + number] = plain.open(), filled.open()
            streams = data.draw(st.lists(st.sampled_from(sorted(pairs)), min_size=1, unique=True), "batch")
            pieces = [codes(data.draw(st.integers(1, 6), "frames"), 100 * step + stream) for stream in streams]
            expected = plain.decode([(pairs[stream][0], piece) for stream, piece in zip(streams, pieces, strict=True)])
            actual = filled.decode([(pairs[stream][1], piece) for stream, piece in zip(streams, pieces, strict=True)])
            for one, other in zip(actual, expected, strict=True):
                assert distance(one, other) < ROUNDING
    finally:
        for slots in pairs.values():
            for decoder, slot in zip((plain, filled), slots, strict=True):
                decoder.close(slot)


@pytest.mark.parametrize("sizes", [[1] * 90, [1, 2, 3, 4, 5, 6] * 5, [2] * 45])
def test_a_long_stream_equals_the_published_decoder(filled: StreamDecoder, published: Any, sizes: list[int]) -> None:
    assert distance(decoded(filled, codes(sum(sizes)), sizes), whole(published, codes(sum(sizes)))) < 1e-4


def test_what_fills_up_a_batch_touches_no_stream(checkpoint: Checkpoint, published: Any) -> None:
    """All slots are taken: a row that fills up must have one beside them."""
    decoder = built(checkpoint, slots=2, sizes=[Size(4, 4, True), Size(4, 4, False)])
    slots = [decoder.open(), decoder.open()]
    heard: list[list[np.ndarray]] = [[], []]
    for start in range(0, 12, 3):
        for stream, slot in enumerate(slots):
            heard[stream] += decoder.decode([(slot, codes(12, stream)[start : start + 3])])
    for stream in range(2):
        assert distance(np.concatenate(heard[stream]), whole(published, codes(12, stream))) < 1e-4


def test_a_batch_may_begin_before_the_one_before_is_collected(filled: StreamDecoder, published: Any) -> None:
    slot = filled.open()
    begun = [filled.submit([(slot, codes(5)[start : start + 1])]) for start in range(5)]
    heard = [decoding.collect()[0] for decoding in begun]
    filled.close(slot)
    assert [len(piece) for piece in heard] == [HOP - TRIM, *[HOP] * 4]
    assert distance(np.concatenate(heard), whole(published, codes(5))) < 1e-4


def test_what_was_collected_is_the_receivers_own(filled: StreamDecoder) -> None:
    slots = [filled.open(), filled.open()]
    first = filled.decode([(slots[0], codes(1))])[0]
    kept = first.copy()
    for _ in range(4):
        filled.decode([(slots[1], codes(1, 7))])
    for slot in slots:
        filled.close(slot)
    np.testing.assert_array_equal(first, kept)


def test_sizes_are_bounded_by_the_slots_and_by_their_frames() -> None:
    options = Code2WavOptions(graph_streams=(1, 2, 4, 8), graph_frames=(1, 3, 8), graph_size=16)
    assert grid(options, 3) == [
        *(Size(rows, 1, True) for rows in (1, 2, 3)),
        *(Size(rows, frames, False) for rows, frames in ((1, 1), (1, 3), (1, 8), (2, 1), (2, 3), (2, 8))),
        *(Size(3, frames, False) for frames in (1, 3)),
    ]
    assert grid(Code2WavOptions(graph_streams=()), 3) == []


def test_an_interrupted_batch_ends_at_its_next_layer_and_the_next_one_is_computed(checkpoint: Checkpoint) -> None:
    assert checkpoint.config.code2wav is not None
    with torch.device("meta"):
        model = Code2Wav(checkpoint.config.code2wav)
    checkpoint.load(model, Part.CODE2WAV, dtype=torch.float32)
    model.prepare()
    batches = Batches(model, 2, "cpu", torch.float32)
    hook = model.decoder[2].register_forward_pre_hook(lambda *_: batches.interrupt())
    with pytest.raises(OmniError) as caught:
        batches.begin([Piece(0, 0, codes(1))])
    assert caught.value.code == "aborted"
    hook.remove()
    [samples] = batches.begin([Piece(1, 0, codes(1))]).collect()
    assert len(samples) == HOP - TRIM
