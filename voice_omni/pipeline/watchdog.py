"""When is a silent process a hung one? Pure: the clock's readings and what the kernel counts are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from voice_omni.pipeline.runqueue import ThreadTimes

_STEPS: Final = 4
"""Looks at a process in the second half of the patience."""


class Watchdog:
    """A process is hung when it has been silent for ``patience`` seconds in which it could have reported.

    Two things do not count. On a machine that stood still (suspended, or short of processors) the reports have piled
    up unread: a check that comes late by more than half the patience starts a new period. And the time for which the
    threads that a report needs were ready and got no processor: a process that is starved is slow, not hung, and
    another one in its place would be no faster. One that is stopped or deadlocked waits for no processor.

    The first half of the patience is not looked into. In the second half there are checks at a steady pace, each of
    which needs the threads' times. ``limit``: seconds of silence after which no excuse is accepted; no less than
    the patience.
    """

    def __init__(self, patience: float, limit: float, now: float) -> None:
        self._patience = patience
        self._limit = max(limit, patience)
        self._step = patience / 2 / _STEPS
        self.heard(now)

    @property
    def due(self) -> float:
        """When to check next."""
        return self._due

    def heard(self, now: float) -> None:
        self._due = now + self._patience / 2
        self._checked = now
        self._silent = 0.0
        self._blamed = 0.0
        self._unused = 0.0
        self._waits: _Waits | None = None

    def is_hung(self, now: float, threads: Mapping[int, ThreadTimes]) -> bool:
        """Call at :attr:`due` or later. ``threads``: without which no report comes; empty where nothing is known."""
        late = now - self._due
        if late < 0:
            return False
        if late > self._patience / 2:
            self.heard(now)
            return False
        if self._waits is None:
            self._silent = self._blamed = self._patience / 2
            self._waits = _Waits(now, threads)
        else:
            self._blame(now - self._checked - self._waits.until(now, threads))
        self._checked = now
        # Counted from when it was due, so that what the checks come late does not add up.
        self._due += self._step if late < self._step else late + self._step
        return self._blamed > self._patience - self._step / 2 or self._silent >= self._limit

    def _blame(self, free: float) -> None:
        """No more than a step for each check, however late. What is left of one counts for the next, which is due the
        sooner."""
        usable = self._unused + max(free, 0.0)
        blamed = min(usable, self._step)
        self._unused = min(usable - blamed, self._step)
        self._blamed += blamed
        self._silent += self._step


class _Waits:
    """Adds up how long threads wait for a processor."""

    def __init__(self, now: float, threads: Mapping[int, ThreadTimes]) -> None:
        self._threads = dict(threads)
        self._moving = dict.fromkeys(threads, now)
        """When each thread was last seen to have run, or to want nothing."""
        self._waited = {name: times.waited_s for name, times in threads.items()}

    def until(self, now: float, threads: Mapping[int, ThreadTimes]) -> float:
        """Seconds of waiting that have come to light since the last call, of all threads that were there at first.

        What two of them waited at the same time is counted twice, in favour of the process: one may hold what the
        other needs, and then they wait in turn.
        """
        return sum(self._of(name, now, times) for name, times in threads.items() if name in self._threads)

    def _of(self, name: int, now: float, times: ThreadTimes) -> float:
        before, self._threads[name] = self._threads[name], times
        if not times.runnable or times.ran_s > before.ran_s:
            self._moving[name] = now
        waited = times.waited_s + now - self._moving[name]
        more = waited - self._waited[name]
        self._waited[name] = waited
        return more


class Backoff:
    """Pauses between restarts: they double with each death, and start anew after a life of ``max_s``."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first = first_s
        self._max = max_s
        self._next = first_s

    def after(self, lived_s: float) -> float:
        """The pause before the next start of a process that has lived so long."""
        if lived_s >= self._max:
            self._next = self._first
        pause, self._next = self._next, min(max(self._next, 0.05) * 2, self._max)
        return pause
