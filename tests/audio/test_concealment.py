"""Lost speech is continued for a moment, without clicks and without buzzing on."""

from __future__ import annotations

import numpy as np
import pytest

from voice_omni.audio.concealment import Concealer
from voice_omni.audio.pcm import Samples

RATE = 8000
FRAME = 160


def voiced(hertz: float, count: int) -> Samples:
    clock = np.arange(count) / RATE
    return sum(0.3 / n * np.sin(2 * np.pi * hertz * n * clock) for n in range(1, 5)).astype(np.float32)


def with_gap(sound: Samples, start: int, frames: int) -> Samples:
    """``sound`` after a concealer that misses ``frames`` frames from frame ``start`` on."""
    concealer = Concealer(RATE)
    pieces = []
    for index in range(len(sound) // FRAME):
        if start <= index < start + frames:
            pieces.append(concealer.conceal(FRAME))
        else:
            pieces.append(concealer.received(sound[index * FRAME : (index + 1) * FRAME]))
    return np.concatenate(pieces)


@pytest.mark.parametrize("hertz", [80, 120, 210, 330])
def test_a_lost_frame_of_voice_is_continued_in_its_pitch(hertz: float) -> None:
    sound = voiced(hertz, 20 * FRAME)
    lost = slice(10 * FRAME, 11 * FRAME)
    heard = with_gap(sound, 10, 1)
    assert np.std(heard[lost] - sound[lost]) < 0.6 * np.std(sound[lost])


@pytest.mark.parametrize("hertz", [80, 120, 210, 330])
@pytest.mark.parametrize("frames", [1, 2, 3, 10])
def test_nothing_clicks_at_its_borders(hertz: float, frames: int) -> None:
    sound = voiced(hertz, 40 * FRAME)
    assert np.abs(np.diff(with_gap(sound, 10, frames))).max() < 1.5 * np.abs(np.diff(sound)).max()


def test_it_fades_away_within_60_ms() -> None:
    heard = with_gap(voiced(120, 40 * FRAME), 10, 20)
    assert not heard[13 * FRAME : 29 * FRAME].any()
    levels = [np.abs(heard[(10 + index) * FRAME : (11 + index) * FRAME]).max() for index in range(3)]
    assert levels == sorted(levels, reverse=True)


def test_what_was_received_is_passed_on_as_it_is() -> None:
    sound = voiced(120, 40 * FRAME)
    heard = with_gap(sound, 10, 2)
    untouched = slice(12 * FRAME + FRAME // 4, None)
    assert np.array_equal(heard[: 10 * FRAME], sound[: 10 * FRAME])
    assert np.array_equal(heard[untouched], sound[untouched])


def test_before_anything_was_received_there_is_silence() -> None:
    assert not Concealer(RATE).conceal(FRAME).any()
