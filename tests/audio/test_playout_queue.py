"""Queued sound comes out whole, and goes away without a click."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.audio.playout_queue import PlayoutQueue

FADE = 240
FRAME = 480


@given(sizes=st.lists(st.integers(0, 2000), max_size=20))
def test_frames_hold_every_sample_once_and_in_order(sizes: list[int]) -> None:
    total = sum(sizes)
    sound = np.arange(1, total + 1, dtype=np.float32)
    queue, start = PlayoutQueue(FADE), 0
    for size in sizes:
        queue.push(sound[start : start + size])
        start += size
    frames = []
    while (frame := queue.take(FRAME)) is not None:
        frames.append(frame)
    heard = np.concatenate([*frames, np.zeros(0, np.float32)])
    assert np.array_equal(heard[:total], sound)
    assert not heard[total:].any()
    assert len(heard) == -(-total // FRAME) * FRAME
    assert (queue.taken, queue.queued) == (total, 0)


def test_a_flush_leaves_a_fade_that_fits_into_a_frame() -> None:
    queue = PlayoutQueue(FADE)
    queue.push(np.ones(10_000, np.float32))
    queue.take(FRAME)
    assert queue.flush() == FRAME + FADE
    last = queue.take(FRAME)
    assert last is not None
    assert last[0] == 1.0
    assert np.abs(np.diff(last)).max() <= 1 / FADE + 1e-6
    assert not last[FADE:].any()
    assert queue.take(FRAME) is None
    assert queue.taken == FRAME + FADE


def test_what_is_queued_after_a_flush_follows_the_fade() -> None:
    queue = PlayoutQueue(FADE)
    queue.push(np.ones(10_000, np.float32))
    queue.flush()
    queue.push(np.full(FRAME, 0.5, np.float32))
    frame = queue.take(FRAME)
    assert frame is not None
    assert np.all(frame[FADE:] == 0.5)


def test_flushing_what_is_empty_drops_nothing() -> None:
    queue = PlayoutQueue(FADE)
    queue.push(np.ones(100, np.float32))
    queue.take(FRAME)
    assert queue.flush() == 100
    assert queue.take(FRAME) is None


def test_flushing_twice_is_flushing_once() -> None:
    queue = PlayoutQueue(FADE)
    queue.push(np.ones(10_000, np.float32))
    assert queue.flush() == queue.flush() == FADE
    frame = queue.take(FRAME)
    assert frame is not None
    assert np.all(frame[:FADE] <= 1.0)
    assert not frame[FADE:].any()
