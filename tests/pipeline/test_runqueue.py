"""What the kernel counts for real processes: stopped, deadlocked, in an endless loop, and starved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from tests.support.patience import PATIENCE_S
from tests.support.toy import ENDLESS_LOOP
from voice_omni.pipeline import runqueue
from voice_omni.pipeline.runqueue import ThreadTimes
from voice_omni.pipeline.watchdog import Watchdog

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system counts no waits")

ONE_PROCESSOR = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"


@contextmanager
def child(code: str) -> Iterator[int]:
    """A process that has begun to run ``code``."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"print(flush=True)\n{code}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def times_of(pid: int) -> ThreadTimes:
    """Those of the main thread, whose id is the process's."""
    return runqueue.times(pid, [pid])[pid]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def asleep(pid: int) -> bool:
    """Whether it has come to where it wants no processor any more."""
    before = times_of(pid)
    time.sleep(0.05)
    return not before.runnable and times_of(pid) == before


def found_after(pid: int) -> float:
    """Seconds of the processor's time after which the watchdog finds a process whose threads change no more."""
    watchdog, now = Watchdog(0.8, 30.0, 0.0), 0.0
    while not watchdog.is_hung(now, runqueue.times(pid, [pid])):
        now = watchdog.due
    return now


def test_a_stopped_process_has_no_excuse() -> None:
    with child("import sys; sys.stdin.read()") as pid:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: asleep(pid))
        assert found_after(pid) == pytest.approx(0.8)


def test_a_deadlocked_process_has_no_excuse() -> None:
    with child("import threading; held = threading.Lock(); held.acquire(); held.acquire()") as pid:
        until(lambda: asleep(pid))
        assert found_after(pid) == pytest.approx(0.8)


@pytest.mark.parametrize("code", [ENDLESS_LOOP, "while True: pass"], ids=["in C", "in Python"])
def test_an_endless_loop_either_runs_or_waits(code: str) -> None:
    """So it is found when it has run for the patience, whatever else the machine does."""
    with child(code) as pid:
        until(lambda: times_of(pid).ran_s > 0.2)
        watchdog, began = Watchdog(0.8, 30.0, time.monotonic()), times_of(pid)

        def hung() -> bool:
            return watchdog.is_hung(time.monotonic(), runqueue.times(pid, [pid]))

        until(hung)
        ended = times_of(pid)
        assert ended.runnable
        assert ended.ran_s > began.ran_s


def test_a_process_that_gets_no_processor_is_excused() -> None:
    """One of the lowest class beside one of the normal class, on the same processor."""
    greedy = ONE_PROCESSOR + "while True: pass"
    meek = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n" + greedy
    with child(greedy), child(meek) as pid:
        until(lambda: times_of(pid).waited_s > 0.1)
        watchdog, began = Watchdog(0.8, 30.0, time.monotonic()), time.monotonic()
        while time.monotonic() < began + 2.0:
            time.sleep(max(watchdog.due - time.monotonic(), 0.0))
            assert not watchdog.is_hung(time.monotonic(), runqueue.times(pid, [pid]))
        assert times_of(pid).runnable


def test_a_thread_that_has_ended_is_left_out() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    ended, mine = thread.native_id, threading.get_native_id()
    until(lambda: set(runqueue.times(os.getpid(), [ended, mine])) == {mine})


def test_the_threads_that_may_hold_the_interpreters_lock_are_known() -> None:
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert {thread.native_id, threading.get_native_id()} <= set(runqueue.interpreted())
    go.set()
    thread.join()
    assert thread.native_id not in runqueue.interpreted()


def test_the_threads_that_carry_messages_are_known() -> None:
    before = set(runqueue.carriers())
    with zmq.Context() as context, context.socket(zmq.PULL):
        until(lambda: set(runqueue.carriers()) > before)
        [carrier] = set(runqueue.carriers()) - before
        assert carrier not in runqueue.interpreted()
        assert set(runqueue.times(os.getpid(), [carrier])) == {carrier}
