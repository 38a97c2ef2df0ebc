"""When a silent process counts as hung, and how long to wait before the next start of one that died."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.pipeline.watchdog import Backoff, Watchdog


def test_silence_for_the_whole_patience_means_hung() -> None:
    watchdog = Watchdog(0.8, now=10.0)
    assert watchdog.due == pytest.approx(10.8)
    assert not watchdog.is_hung(10.79)
    assert watchdog.is_hung(10.8)


def test_each_sign_of_life_starts_the_patience_anew() -> None:
    watchdog = Watchdog(0.8, now=0.0)
    watchdog.heard(0.5)
    assert not watchdog.is_hung(1.0)
    assert watchdog.due == pytest.approx(1.3)
    assert watchdog.is_hung(1.3)


def test_a_check_that_comes_late_proves_nothing() -> None:
    """The machine was suspended: what the process sent meanwhile is still unread."""
    watchdog = Watchdog(0.8, now=0.0)
    assert not watchdog.is_hung(30.0)
    assert watchdog.due == pytest.approx(30.8)
    assert watchdog.is_hung(30.8)


@given(st.lists(st.floats(0.01, 0.4), max_size=50))
def test_a_process_that_reports_in_time_is_never_hung(pauses: list[float]) -> None:
    now = 0.0
    watchdog = Watchdog(0.5, now)
    for pause in pauses:
        now += pause
        assert not watchdog.is_hung(now)
        watchdog.heard(now)


@given(st.lists(st.floats(0.51, 100.0), max_size=20), st.floats(0.0, 0.49))
def test_a_process_that_never_reports_is_found_at_the_first_check_in_time(late: list[float], in_time: float) -> None:
    watchdog = Watchdog(1.0, 0.0)
    for delay in late:
        assert not watchdog.is_hung(watchdog.due + delay)
    assert watchdog.is_hung(watchdog.due + in_time)


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [backoff.after(0.0) for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_a_long_life_is_forgiven() -> None:
    backoff = Backoff(0.1, 1.0)
    for _ in range(5):
        backoff.after(0.5)
    assert backoff.after(1.0) == pytest.approx(0.1)
    assert backoff.after(0.5) == pytest.approx(0.2)


def test_a_first_pause_of_zero_still_grows() -> None:
    backoff = Backoff(0.0, 1.0)
    pauses = [backoff.after(0.0) for _ in range(8)]
    assert pauses[0] == 0.0
    assert pauses[1] > 0.0
    assert pauses[-1] == 1.0
