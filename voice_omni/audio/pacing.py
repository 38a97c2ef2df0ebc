"""When sound that is made faster than real time may be sent: deadlines on one absolute clock.

Sleeping for the length of each chunk would add up every late wake-up; a deadline computed from the start of the
stretch does not, and after a stall the schedule starts afresh instead of sending a burst.
"""

from __future__ import annotations


class PlayoutClock:
    """Where the listener's playback stands, if it plays without a break what it was sent.

    All times are seconds on the caller's monotonic clock. A listener who receives chunks back to back plays them back
    to back; one who ran dry starts again at the moment the next chunk arrives.
    """

    def __init__(self, max_lead: float) -> None:
        """``max_lead``: how many seconds of sound may be sent ahead of the playback."""
        self._max_lead = max_lead
        self._ends = float("-inf")

    def next_send(self, now: float) -> float:
        """The earliest moment at which more may be sent: now, or when the lead has shrunk enough."""
        return max(now, self._ends - self._max_lead)

    def sent(self, duration: float, now: float) -> tuple[float, float]:
        """``duration`` seconds were sent at ``now``; returns when their playback starts and ends."""
        starts = max(now, self._ends)
        self._ends = starts + duration
        return starts, self._ends

    def playing(self, now: float) -> bool:
        return now < self._ends

    def remaining(self, now: float) -> float:
        """Seconds of sound that were sent and not yet played."""
        return max(0.0, self._ends - now)

    def clear(self, now: float) -> None:
        """The listener dropped what was left."""
        self._ends = min(self._ends, now)


class SlotPacer:
    """Divides time into slots of one length from a fixed start: one thing is sent in each, or in none.

    Slot ``n`` begins at ``start + n * length``, whenever the one before was really served, so that late wake-ups do not
    add up. A wake-up that misses no more than ``grace`` slots serves them one after the other: the receiver's jitter
    buffer holds that much, and a hole would be heard. Of a longer stall the slots are gone, and nothing is sent faster
    to make up for them.
    """

    def __init__(self, length: float, start: float, grace: int = 0) -> None:
        """``length``, ``start``: seconds, on the caller's monotonic clock."""
        self._length = length
        self._start = start
        self._grace = grace
        self._next = 0

    @property
    def due(self) -> float:
        """When the next slot begins."""
        return self._start + self._next * self._length

    def serve(self, now: float) -> int:
        """Take the next slot, or the one that ``now`` lies in after a stall; returns how many went by unserved."""
        current = max(self._next, int((now - self._start) / self._length + 1e-6))
        skipped = current - self._next if current - self._next > self._grace else 0
        self._next += skipped + 1
        return skipped
