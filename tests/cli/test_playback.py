"""What a listener hears, and when."""

from __future__ import annotations

import numpy as np
import pytest

from voice_omni.audio.pcm import Samples
from voice_omni.cli.playback import Playback


def sound(seconds: float, level: float = 0.5) -> Samples:
    return np.full(round(seconds * 24_000), level, np.float32)


def test_pieces_that_arrive_early_play_one_after_the_other() -> None:
    playback = Playback()
    playback.push("a", sound(1.0), now=10.0)
    playback.push("a", sound(1.0), now=10.1)
    assert playback.ends == pytest.approx(12.0)
    assert playback.playing(11.9) == "a"
    assert playback.playing(12.1) is None


def test_a_piece_that_arrives_late_plays_at_once() -> None:
    playback = Playback()
    playback.push("a", sound(1.0), now=10.0)
    playback.push("a", sound(1.0), now=13.0)
    assert playback.playing(12.0) is None
    assert playback.ends == pytest.approx(14.0)


def test_the_first_audible_sample_comes_after_the_leading_silence() -> None:
    playback = Playback()
    playback.push("a", sound(0.25, level=0.001), now=10.0)
    assert playback.first_audible("a") is None
    playback.push("a", sound(1.0), now=10.0)
    assert playback.first_audible("a") == pytest.approx(10.25)


def test_clearing_drops_what_was_not_played_yet() -> None:
    playback = Playback()
    playback.push("a", sound(2.0), now=10.0)
    playback.push("b", sound(2.0), now=10.0)
    assert playback.played_ms("a", 11.5) == 1500
    playback.clear(11.5)
    assert playback.ends == pytest.approx(11.5)
    assert playback.playing(11.6) is None
    assert playback.played_ms("b", 20.0) == 0
    assert len(playback.heard()) == 36_000


def test_what_comes_after_a_clear_plays_at_once() -> None:
    playback = Playback()
    playback.push("a", sound(60.0), now=10.0)
    playback.clear(11.0)
    playback.push("b", sound(1.0), now=11.5)
    assert playback.playing(11.6) == "b"


def test_before_any_sound_nothing_plays() -> None:
    playback = Playback()
    assert playback.ends < 0
    assert playback.playing(0.0) is None
    assert len(playback.heard()) == 0
