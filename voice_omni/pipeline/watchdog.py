"""When is a silent process a hung one? Pure: the clock's readings are passed in."""

from __future__ import annotations


class Watchdog:
    """A process is hung when it has been silent for ``patience`` seconds that this process itself was awake.

    On a machine that stood still (suspended, or short of processors) the heartbeats have piled up unread: a check
    that comes late by more than half the patience proves nothing about the other side, and starts a new period.
    """

    def __init__(self, patience: float, now: float) -> None:
        self._patience = patience
        self._due = now + patience

    @property
    def due(self) -> float:
        """When to check next."""
        return self._due

    def heard(self, now: float) -> None:
        self._due = now + self._patience

    def is_hung(self, now: float) -> bool:
        """Call at :attr:`due` or later."""
        if now < self._due:
            return False
        if now - self._due > self._patience / 2:
            self._due = now + self._patience
            return False
        return True


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
