"""From packets that come late, twice, out of order or not at all to one timeline without gaps.

For a listener that is a machine. A loudspeaker needs its next 20 ms when the last ones end, so that a jitter buffer for
ears delays everything by what the slowest packet needs. Here what is in order is handed on at once, and only a hole is
waited for: as long as the path's jitter of the last two seconds makes it likely that the packet still comes. A packet
that comes later than that is skipped, because its place has been concealed; so the timeline keeps the length that the
sender's timestamps give it (RFC 3550, section 5.1), through losses, pauses and outages.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from voice_omni.audio.path_delay import PathDelay

FILL_S: Final = 0.02
"""The timeline goes on in steps of this while nothing arrives."""
MAX_HELD: Final = 64
"""Packets behind a hole. More than this in the time that a hole is waited for is not speech."""
CLOCK_JUMP_S: Final = 1.0
"""Timestamps that leave the clock by more than this are of a clock that was set anew, not of a slow path."""
LATE_RUN: Final = 3
"""So many packets in a row, late by about the same: the path has become slower."""
_LATE_TOLERANCE_S: Final = 0.03


@dataclass(frozen=True, slots=True)
class Packet:
    """One RTP packet of sound, as sent: sequence number modulo 2**16, timestamp modulo 2**32 in units of its clock."""

    source: int
    """SSRC: another one begins a stream of its own, on the same timeline."""
    sequence: int
    timestamp: int
    duration: int
    """In units of the clock."""
    payload: bytes
    pausing: bool = False
    """The sender announces that it will send little or nothing now (silence suppression)."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The next ``duration`` units of the timeline."""

    duration: int
    payload: bytes | None
    """What was sent for it; None: nothing came, it has to be concealed."""
    skip: int = 0
    """So many units at the beginning of the payload's sound have been concealed already."""


@dataclass(slots=True)
class Counts:
    """Durations are in units of the clock."""

    packets: int = 0
    late: int = 0
    """Packets that were skipped: too late, or there already."""
    length: int = 0
    """Of the timeline so far."""
    lost: int = 0
    """Concealed although it had been sent."""
    paused: int = 0
    """Filled because nothing was sent. What has been filled last counts once the next packet tells which it was."""
    delivered: int = 0
    buffered_s: float = 0.0
    """Sum over the packets delivered of the time that they spent here."""


@dataclass(order=True, slots=True)
class _Held:
    position: int
    sequence: int
    arrival: float = field(compare=False)
    packet: Packet = field(compare=False)


class JitterBuffer:
    """Times are seconds on the caller's monotonic clock, positions units of the RTP clock since the first packet.

    :meth:`put` what arrives, call :meth:`advance` about every 20 ms, and use what both return in that order.
    """

    def __init__(self, clock_rate: int, *, min_wait: float, max_wait: float, stall_wait: float) -> None:
        """``clock_rate``: units a second. ``min_wait``, ``max_wait``: seconds that a hole is waited for at least and at
        most. ``stall_wait``: seconds without any packet after which the timeline goes on all the same."""
        self.counts = Counts()
        self._rate = clock_rate
        self._stall_wait = stall_wait
        self._path = PathDelay(min_wait, max_wait)
        self._held: list[_Held] = []
        self._next = 0
        # The newest packet's place, to which timestamps and sequence numbers are unwrapped.
        self._newest: Packet | None = None
        self._newest_position = 0
        self._newest_sequence = 0
        # The last packet delivered, and what has been filled since without knowing whether anything was sent.
        self._last_sequence = 0
        self._pausing = False
        self._filled = 0
        # Packets in a row that came late, and the delay of the first of them.
        self._late_run = 0
        self._late_delay = 0.0

    @property
    def wait(self) -> float:
        """How long a hole is waited for at present, in seconds."""
        return self._path.wait

    @property
    def held(self) -> int:
        """Packets that wait behind a hole."""
        return len(self._held)

    def put(self, packet: Packet, arrival: float) -> list[Stretch]:
        """A packet has arrived; returns what follows on the timeline now."""
        self.counts.packets += 1
        stretches: list[Stretch] = []
        if self._newest is None:
            self._begin(packet)
        elif packet.source != self._newest.source or self._jumped(packet, arrival):
            stretches += self._pass_holes(arrival)
            self._begin(packet)
        position, sequence = self._place(packet)
        delay = arrival - position / self._rate
        if position + packet.duration <= self._next:
            if not self._slower(delay):
                self._skip(delay, arrival)
                return stretches
            self._path.restart()
            if (self._next - position) / self._rate <= CLOCK_JUMP_S:
                self._skip(delay, arrival)
                return stretches
            stretches += self._pass_holes(arrival)
            self._begin(packet)
            position, sequence = self._place(packet)
            delay = arrival - position / self._rate
        self._late_run = 0
        self._path.observe(delay, arrival)
        if position > self._newest_position or packet is self._newest:
            self._newest, self._newest_position, self._newest_sequence = packet, position, sequence
        held = _Held(position, sequence, arrival, packet)
        if held in self._held:
            self.counts.late += 1
            return stretches
        insort(self._held, held, key=attrgetter("position"))
        stretches += self._in_order(arrival)
        if len(self._held) > MAX_HELD:
            stretches += self._pass_holes(arrival)
        return stretches

    def advance(self, now: float) -> list[Stretch]:
        """Time has passed; returns what of the timeline was waited for long enough."""
        stretches: list[Stretch] = []
        if self._newest is None:
            return stretches
        while now >= self._deadline():
            if self._held:
                stretches += self._conceal(self._held[0].position - self._next)
                stretches += self._in_order(now)
            else:
                stretches += self._conceal(round(FILL_S * self._rate))
        return stretches

    # The sender's clock

    def _begin(self, packet: Packet) -> None:
        """The packet is the next thing on the timeline, whatever its numbers are."""
        if self._newest is not None:
            self.counts.paused += self._filled
        self._path.restart()
        self._filled = 0
        self._late_run = 0
        self._newest, self._newest_position, self._newest_sequence = packet, self._next, 0
        self._last_sequence = -1

    def _place(self, packet: Packet) -> tuple[int, int]:
        """Position and unwrapped sequence number."""
        assert self._newest is not None
        position = self._newest_position + _signed(packet.timestamp - self._newest.timestamp, 32)
        return position, self._newest_sequence + _signed(packet.sequence - self._newest.sequence, 16)

    def _jumped(self, packet: Packet, arrival: float) -> bool:
        """No path makes packets arrive before they can have been sent."""
        position, _ = self._place(packet)
        farthest = self._next + CLOCK_JUMP_S * self._rate
        return position > farthest and position / self._rate > arrival - self._path.fastest + CLOCK_JUMP_S

    # Late packets

    def _slower(self, delay: float) -> bool:
        """Whether the path has become slower: a run of packets is late, and does not catch up as a burst does."""
        if self._late_run == 0:
            self._late_delay = delay
        self._late_run += 1
        if self._late_run < LATE_RUN:
            return False
        constant = delay >= self._late_delay - _LATE_TOLERANCE_S
        self._late_run = 0
        return constant

    def _skip(self, delay: float, arrival: float) -> None:
        self.counts.late += 1
        self._path.observe(delay, arrival)

    # The timeline

    def _deadline(self) -> float:
        """When to go on without the packet that is next."""
        patience = self._path.wait
        if not self._held and not self._pausing:
            patience = max(patience, self._stall_wait)
        return self._path.fastest + self._next / self._rate + patience

    def _in_order(self, now: float) -> Iterator[Stretch]:
        while self._held:
            first = self._held[0]
            if first.position > self._next:
                if first.sequence != self._last_sequence + 1:
                    return
                # The sender left something out and lost nothing on the way.
                yield from self._conceal(first.position - self._next)
            del self._held[0]
            if first.position + first.packet.duration <= self._next:
                self.counts.late += 1
                continue
            yield self._deliver(first, now)

    def _deliver(self, held: _Held, now: float) -> Stretch:
        skip = self._next - held.position
        duration = held.packet.duration - skip
        self._settle(held)
        self._last_sequence = held.sequence
        self._pausing = held.packet.pausing
        self._next += duration
        self.counts.length += duration
        self.counts.delivered += 1
        self.counts.buffered_s += now - held.arrival
        return Stretch(duration, held.packet.payload, skip)

    def _settle(self, held: _Held) -> None:
        """The sequence numbers tell how much of what has been filled was sent."""
        missing = max(0, held.sequence - self._last_sequence - 1) * held.packet.duration
        lost = min(self._filled, missing)
        self.counts.lost += lost
        self.counts.paused += self._filled - lost
        self._filled = 0

    def _conceal(self, duration: int) -> Iterator[Stretch]:
        step = round(FILL_S * self._rate)
        self._next += duration
        self._filled += duration
        self.counts.length += duration
        while duration > 0:
            yield Stretch(min(step, duration), None)
            duration -= step

    def _pass_holes(self, now: float) -> Iterator[Stretch]:
        """Deliver all that is held, without waiting for what is missing in between."""
        while self._held:
            if (hole := self._held[0].position - self._next) > 0:
                yield from self._conceal(hole)
            yield from self._in_order(now)


def _signed(difference: int, bits: int) -> int:
    """``difference`` modulo ``2**bits``, as the number nearest to 0."""
    half = 1 << (bits - 1)
    return (difference + half) % (2 * half) - half
