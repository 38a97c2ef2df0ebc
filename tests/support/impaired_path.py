"""A network path that loses, delays, reorders and doubles packets: a seeded model, without sockets or waiting."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ImpairedPath:
    """Durations in seconds, shares between 0 and 1."""

    delay: float = 0.04
    jitter: float = 0.0
    """Standard deviation of the delay that comes on top, of which only the positive half occurs."""
    loss: float = 0.0
    reordering: float = 0.0
    """Share of packets that are held back so long that others pass them."""
    held_back: float = 0.03
    duplicates: float = 0.0
    stalls: tuple[tuple[float, float], ...] = ()
    """From when to when nothing gets through; what was sent meanwhile comes at once at the end."""
    slower: tuple[float, float] | None = None
    """From when on the path takes how much longer."""
    seed: int = 1

    def fate(self, rng: random.Random, sent: float) -> list[float]:
        """When a packet that is sent at ``sent`` arrives: never, once or twice."""
        lost, passed, doubled = (rng.random() < share for share in (self.loss, self.reordering, self.duplicates))
        delay = self.delay + abs(rng.gauss(0, self.jitter)) + (self.held_back if passed else 0.0)
        if self.slower is not None and sent >= self.slower[0]:
            delay += self.slower[1]
        arrival = sent + delay
        for start, end in self.stalls:
            if start <= sent < end:
                arrival = max(arrival, end + self.delay)
        if lost:
            return []
        return [arrival, arrival + 0.001] if doubled else [arrival]

    def arrivals(self, sent: Sequence[float]) -> list[tuple[float, int]]:
        """When which of the packets that are sent at these moments arrives, in the order of arrival."""
        rng = random.Random(self.seed)
        return sorted((arrival, index) for index, when in enumerate(sent) for arrival in self.fate(rng, when))
