"""When a silent process counts as hung, and how long to wait before the next start of one that died."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.pipeline.runqueue import ThreadTimes
from voice_omni.pipeline.watchdog import Backoff, Watchdog

ASLEEP = ThreadTimes(ran_s=1.0, waited_s=0.1, runnable=False)
"""A thread that waits for something to happen, or that is stopped."""
READY = replace(ASLEEP, runnable=True)


Shares = Mapping[int, tuple[float, float]]
"""What each thread does of every second: it runs, it waits for a processor; the rest it wants nothing."""


class Machine:
    """The time, and the threads of a silent process."""

    def __init__(self, patience: float = 0.8, limit: float = 30.0) -> None:
        self.now = 100.0
        self.threads: dict[int, ThreadTimes] = {}
        self.watchdog = Watchdog(patience, limit, self.now)

    def pass_time(self, seconds: float, shares: Shares) -> None:
        self.now += seconds
        for thread, (ran, waited) in shares.items():
            before = self.threads.get(thread, ASLEEP)
            ran_s, waited_s = before.ran_s + ran * seconds, before.waited_s + waited * seconds
            self.threads[thread] = ThreadTimes(ran_s, waited_s, runnable=ran + waited > 0.9)

    def until_hung(self, shares: Shares | None = None, *, late: float = 0.0, at_most: float = 200.0) -> float:
        """Seconds of silence until the process counts as hung; ``at_most`` where it does not by then. Checks come as
        they are due, ``late`` seconds later."""
        began = self.now
        while self.now < began + at_most:
            self.pass_time(self.watchdog.due - self.now + late, shares or {})
            if self.watchdog.is_hung(self.now, self.threads):
                return self.now - began
        return at_most


def test_silence_for_the_whole_patience_means_hung() -> None:
    assert Machine(0.8).until_hung() == pytest.approx(0.8)


def test_a_check_that_comes_early_proves_nothing() -> None:
    watchdog = Watchdog(0.8, 30.0, now=10.0)
    assert watchdog.due == pytest.approx(10.4)
    assert not watchdog.is_hung(10.39, {})
    assert watchdog.due == pytest.approx(10.4)


def test_each_sign_of_life_starts_the_patience_anew() -> None:
    machine = Machine(0.8)
    assert machine.until_hung(at_most=0.6) == 0.6
    machine.watchdog.heard(machine.now)
    assert machine.until_hung() == pytest.approx(0.8)


def test_a_check_that_comes_late_proves_nothing() -> None:
    """The machine was suspended: what the process sent meanwhile is still unread."""
    watchdog = Watchdog(0.8, 30.0, now=0.0)
    assert not watchdog.is_hung(30.0, {})
    assert watchdog.due == pytest.approx(30.4)


@given(st.floats(0.0, 0.5), st.floats(0.0, 100.0))
def test_after_a_standstill_of_everything_there_is_time_to_report(since: float, length: float) -> None:
    """However long it is, and also where it is hardly longer than the patience, as when a virtual machine is moved."""
    watchdog, end = Watchdog(0.8, 30.0, now=0.0), since + length
    while watchdog.due < since:
        assert not watchdog.is_hung(watchdog.due, {})
    assert not watchdog.is_hung(end, {})
    while watchdog.due < end + 0.15:
        assert not watchdog.is_hung(max(watchdog.due, end), {})


@given(st.floats(0.0, 0.09))
def test_what_each_check_is_late_does_not_add_up(late: float) -> None:
    assert Machine(0.8).until_hung(late=late) == pytest.approx(0.8 + late)


@given(st.lists(st.floats(0.01, 0.4), max_size=50))
def test_a_process_that_reports_in_time_is_never_hung(pauses: list[float]) -> None:
    now = 0.0
    watchdog = Watchdog(0.5, 30.0, now)
    for pause in pauses:
        now += pause
        assert not watchdog.is_hung(now, {})
        watchdog.heard(now)


@given(st.lists(st.floats(0.51, 100.0), max_size=20), st.floats(0.0, 0.1))
def test_a_process_that_never_reports_is_found_once_checks_come_in_time(late: list[float], in_time: float) -> None:
    machine = Machine(1.0)
    for delay in late:
        machine.pass_time(machine.watchdog.due - machine.now + delay, {})
        assert not machine.watchdog.is_hung(machine.now, {})
    assert machine.until_hung(late=in_time) == pytest.approx(1.0 + in_time)


# -- who got no processor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param({}, id="the system tells nothing"),
        pytest.param({1: (0.0, 0.0), 2: (0.0, 0.0)}, id="stopped or deadlocked"),
        pytest.param({1: (1.0, 0.0), 2: (0.0, 0.0)}, id="in an endless loop"),
        pytest.param({1: (0.001, 0.01), 2: (0.99, 0.01)}, id="in an endless loop that holds the lock"),
    ],
)
def test_a_hung_process_is_found_in_less_than_a_second(shares: Shares) -> None:
    """With the patience that holds by default."""
    assert Machine(0.8).until_hung(shares) == pytest.approx(0.8)


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param({1: (0.01, 0.99)}, id="its loop"),
        pytest.param({1: (0.0, 0.0), 2: (0.02, 0.98)}, id="the thread that holds the interpreter's lock"),
        pytest.param({1: (0.01, 0.33), 2: (0.0, 0.33), 3: (0.01, 0.32)}, id="one thread after the other"),
    ],
)
def test_a_process_whose_threads_wait_for_a_processor_is_not_hung(shares: Shares) -> None:
    assert Machine(0.8).until_hung(shares, at_most=10.0) == 10.0


def test_a_wait_that_has_not_ended_counts_too() -> None:
    """The kernel adds a wait up when it ends. Until then the thread is ready, and has not run."""
    machine = Machine(0.8)
    machine.threads = {1: READY}
    assert machine.until_hung(at_most=10.0) == 10.0
    machine.threads = {1: replace(READY, ran_s=1.001, waited_s=10.1, runnable=False)}
    assert machine.until_hung() <= 0.6, "the wait is over, and was counted once"


def test_a_process_that_hangs_after_it_was_starved_is_found() -> None:
    machine = Machine(0.8)
    assert machine.until_hung(dict.fromkeys(range(5), (0.05, 0.95)), at_most=5.0) == 5.0
    assert machine.until_hung(dict.fromkeys(range(5), (0.0, 0.0))) <= 0.6, (
        "what five threads waited at the same time is no credit for later"
    )


@given(st.floats(0.05, 1.0))
def test_an_endless_loop_is_found_when_it_has_run_for_its_patience(share: float) -> None:
    """On a machine so busy that it gets this share of a processor, it takes as much longer, and no longer."""
    found = Machine(0.8).until_hung({1: (share, 1.0 - share)})
    assert 0.8 - 1e-6 <= found <= 0.4 + 0.4 / share + 0.1


def test_a_thread_that_ended_or_began_meanwhile_excuses_nothing() -> None:
    machine = Machine(0.8)
    machine.threads = {1: ASLEEP, 2: READY}
    machine.pass_time(0.4, {})
    assert not machine.watchdog.is_hung(machine.now, machine.threads)
    machine.threads = {1: ASLEEP, 3: replace(READY, waited_s=50.0)}
    assert machine.until_hung() == pytest.approx(0.4)


def test_no_excuse_lasts_for_ever() -> None:
    silent = Machine(0.8, limit=5.0).until_hung({1: (0.0, 1.0), 2: (0.0, 1.0)})
    assert silent == pytest.approx(5.0, abs=0.11)


def test_the_limit_of_all_excuses_does_not_shorten_the_patience() -> None:
    assert Machine(60.0, limit=30.0).until_hung() == pytest.approx(60.0)


# -- the next start ----------------------------------------------------------------------------------------------------


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
