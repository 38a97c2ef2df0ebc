"""What was heard of each answer when playback stopped."""

from __future__ import annotations

import pytest

from voice_omni.session.ledger import PlaybackLedger


def test_the_item_being_played_is_cut_where_it_is_and_later_ones_at_zero() -> None:
    ledger = PlaybackLedger()
    ledger.sent("a", 0.0, 2.0, now=0.0)
    ledger.sent("b", 2.0, 5.0, now=0.0)
    ledger.sent("c", 5.0, 6.0, now=0.0)
    assert ledger.cut(3.5) == {"b": pytest.approx(1500), "c": 0}


def test_what_was_played_to_its_end_is_not_cut() -> None:
    ledger = PlaybackLedger()
    ledger.sent("a", 0.0, 2.0, now=0.0)
    assert ledger.cut(2.0) == {}


def test_a_break_in_playback_does_not_count_as_heard() -> None:
    ledger = PlaybackLedger()
    ledger.sent("a", 0.0, 1.0, now=0.0)
    ledger.sent("a", 5.0, 6.0, now=5.0)
    assert ledger.cut(5.25) == {"a": pytest.approx(1250)}


def test_after_a_cut_nothing_is_playing() -> None:
    ledger = PlaybackLedger()
    ledger.sent("a", 0.0, 2.0, now=0.0)
    ledger.cut(1.0)
    assert ledger.cut(1.0) == {}


def test_played_items_are_let_go() -> None:
    ledger = PlaybackLedger()
    for number in range(1000):
        ledger.sent(f"item_{number}", number, number + 1, now=number)
    assert len(ledger._stretches) < 5


def test_the_items_that_are_audible_are_those_being_played_or_played_just_now() -> None:
    ledger = PlaybackLedger()
    ledger.sent("a", 0.0, 2.0, now=0.0)
    ledger.sent("b", 2.0, 5.0, now=0.0)
    assert ledger.audible(since=0.5, now=1.5) == {"a"}
    assert ledger.audible(since=1.5, now=2.5) == {"a", "b"}
    assert ledger.audible(since=2.0, now=3.0) == {"b"}
    assert ledger.audible(since=5.0, now=6.0) == set()
