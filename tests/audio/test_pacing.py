"""When sound may be sent, on a clock that the test moves."""

from __future__ import annotations

import random

import pytest

from voice_omni.audio.pacing import PlayoutClock, SlotPacer


def _send_all(clock: PlayoutClock, pieces: int, duration: float, late: float, now: float = 0.0) -> list[float]:
    """Send each piece as soon as allowed and wake up ``late`` seconds too late whenever that means waiting."""
    sent = []
    for _ in range(pieces):
        due = clock.next_send(now)
        now = due + late if due > now else now
        sent.append(now)
        clock.sent(duration, now)
    return sent


def test_the_lead_is_sent_at_once_and_the_rest_in_real_time() -> None:
    sent = _send_all(PlayoutClock(max_lead=1.0), pieces=20, duration=0.2, late=0.0)
    assert sent[:6] == [0.0] * 6
    assert sent[6:9] == pytest.approx([0.2, 0.4, 0.6])


def test_late_wake_ups_do_not_add_up() -> None:
    sent = _send_all(PlayoutClock(max_lead=0.2), pieces=3000, duration=0.02, late=0.003)
    assert sent[-1] == pytest.approx(3000 * 0.02 - 0.2, abs=0.02)


def test_a_listener_who_ran_dry_starts_again_when_sound_comes() -> None:
    clock = PlayoutClock(max_lead=1.0)
    clock.sent(0.5, now=0.0)
    assert clock.sent(0.5, now=5.0) == (5.0, 5.5)


def test_what_is_sent_back_to_back_is_played_back_to_back() -> None:
    clock = PlayoutClock(max_lead=1.0)
    assert clock.sent(0.5, now=10.0) == (10.0, 10.5)
    assert clock.sent(0.5, now=10.1) == (10.5, 11.0)
    assert clock.playing(10.9)
    assert not clock.playing(11.0)
    assert clock.remaining(10.75) == pytest.approx(0.25)


def test_clearing_frees_the_lead() -> None:
    clock = PlayoutClock(max_lead=1.0)
    clock.sent(30.0, now=0.0)
    clock.clear(2.0)
    assert not clock.playing(2.0)
    assert clock.next_send(2.0) == 2.0


def test_slots_lie_on_one_grid_however_late_each_is_served() -> None:
    """A minute of wake-ups that are 1 to 5 ms late: chained sleeps would be seconds behind."""
    rng = random.Random(1)
    pacer, served = SlotPacer(0.02, 100.0), 0
    for _ in range(3000):
        now = pacer.due + rng.uniform(0.001, 0.005)
        assert pacer.serve(now) == 0
        served += 1
    assert pacer.due == pytest.approx(100.0 + served * 0.02)


def test_slots_that_went_by_in_a_stall_are_skipped_and_not_made_up_for() -> None:
    pacer = SlotPacer(0.02, 0.0)
    pacer.serve(0.0)
    assert pacer.serve(5.013) == 249
    assert pacer.due == pytest.approx(5.02)
    assert pacer.serve(pacer.due) == 0


def test_a_short_stall_is_made_up_for_within_the_grace() -> None:
    pacer = SlotPacer(0.02, 0.0, grace=2)
    assert [pacer.serve(0.0), pacer.serve(0.065), pacer.serve(0.065), pacer.serve(0.065)] == [0, 0, 0, 0]
    assert pacer.due == pytest.approx(0.08)
    assert pacer.serve(0.145) == 3
    assert pacer.due == pytest.approx(0.16)


def test_a_wake_up_that_is_early_by_a_rounding_error_takes_its_own_slot() -> None:
    pacer = SlotPacer(0.02, 0.1)
    for number in range(1000):
        assert pacer.due == pytest.approx(0.1 + number * 0.02)
        assert pacer.serve(pacer.due - 1e-12) == 0
