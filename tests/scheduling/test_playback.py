"""How far ahead of the ear a stream is."""

from __future__ import annotations

import pytest

from voice_omni.scheduling.playback import Playback


def test_sound_is_heard_from_the_moment_on_when_its_first_part_was_sent() -> None:
    playback = Playback()
    assert playback.lead(5.0) == 0
    playback.send(0.5, 10.0)
    playback.send(0.5, 10.2)
    assert playback.lead(10.2) == pytest.approx(0.8)
    assert playback.lead(11.5) == pytest.approx(-0.5), "the ear has waited for half a second"
