"""Sound on its way to the sound device."""

from __future__ import annotations

import numpy as np

from voice_omni.audio.pcm import Samples
from voice_omni.cli.loudspeaker import SoundQueue


def filled(queue: SoundQueue, count: int) -> list[float]:
    out: Samples = np.full(count, 9.0, np.float32)
    queue.fill(out)
    return out.tolist()


def pieces(*samples: list[float]) -> SoundQueue:
    queue = SoundQueue()
    for piece in samples:
        queue.put(np.array(piece, np.float32))
    return queue


def test_pieces_are_joined_and_cut_as_the_device_asks() -> None:
    queue = pieces([1, 2, 3], [4], [5, 6])
    assert filled(queue, 2) == [1, 2]
    assert filled(queue, 3) == [3, 4, 5]
    assert filled(queue, 3) == [6, 0, 0]


def test_without_sound_there_is_silence() -> None:
    assert filled(pieces(), 2) == [0, 0]


def test_clearing_falls_silent_at_once() -> None:
    queue = pieces([1, 2, 3])
    filled(queue, 1)
    queue.clear()
    assert filled(queue, 2) == [0, 0]
