"""How much later than the fastest of them the packets of a stream arrive, of late."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

WINDOW_S: Final = 2.0
"""What the path did longer ago than this says nothing about what it does now."""
_QUANTILE: Final = 0.97
_MARGIN_S: Final = 0.02


class PathDelay:
    """The delays of the last two seconds. They have an arbitrary zero, as the sender's clock has: only differences mean
    something. A clock that drifts moves the window with it."""

    def __init__(self, min_wait: float, max_wait: float) -> None:
        """Bounds of :attr:`wait`, in seconds."""
        self._min_wait = min_wait
        self._max_wait = max_wait
        self._recent: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []

    def observe(self, delay: float, now: float) -> None:
        """A packet took ``delay`` seconds and arrived at ``now``."""
        self._recent.append((now, delay))
        insort(self._sorted, delay)
        while self._recent[0][0] < now - WINDOW_S:
            _, old = self._recent.popleft()
            del self._sorted[bisect_left(self._sorted, old)]

    def restart(self) -> None:
        """The path has changed: what was observed no longer holds."""
        self._recent.clear()
        self._sorted.clear()

    @property
    def fastest(self) -> float:
        """The shortest delay. At least one has to have been observed."""
        return self._sorted[0]

    @property
    def wait(self) -> float:
        """How long to wait for a packet after the fastest would have arrived, in seconds: nearly all come by then."""
        if not self._sorted:
            return self._min_wait
        usual = self._sorted[int(_QUANTILE * (len(self._sorted) - 1))]
        return min(max(usual - self.fastest + _MARGIN_S, self._min_wait), self._max_wait)
