"""One timeline out of whatever a network does to packets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.impaired_path import ImpairedPath
from voice_omni.audio.jitter_buffer import MAX_HELD, JitterBuffer, Packet, Stretch

RATE = 48_000
FRAME = 960
FRAME_S = 0.02


@dataclass
class Given:
    """A stretch that came out, when, and where on the timeline it begins."""

    at: float
    position: int
    stretch: Stretch

    @property
    def index(self) -> int | None:
        """Which packet it is; None: concealment."""
        return None if self.stretch.payload is None else int.from_bytes(self.stretch.payload)


@dataclass
class Run:
    """A buffer that is fed, and asked every 20 ms, as a call does it."""

    buffer: JitterBuffer = field(
        default_factory=lambda: JitterBuffer(RATE, min_wait=0.04, max_wait=0.12, stall_wait=0.2)
    )
    given: list[Given] = field(default_factory=list)
    most_held: int = 0
    position: int = 0
    ticked: float = 0.0

    def feed(self, arrivals: Iterable[tuple[float, Packet]], until: float | None = None) -> Run:
        for arrival, packet in arrivals:
            self.pass_time(arrival)
            self._take(arrival, self.buffer.put(packet, arrival))
        if until is not None:
            self.pass_time(until)
        return self

    def pass_time(self, until: float) -> None:
        while self.ticked + FRAME_S <= until:
            self.ticked += FRAME_S
            self._take(self.ticked, self.buffer.advance(self.ticked))

    def _take(self, now: float, stretches: list[Stretch]) -> None:
        self.most_held = max(self.most_held, self.buffer.held)
        for stretch in stretches:
            self.given.append(Given(now, self.position, stretch))
            self.position += stretch.duration

    @property
    def delivered(self) -> list[int]:
        return [each.index for each in self.given if each.index is not None]

    @property
    def concealed(self) -> int:
        return sum(each.stretch.duration for each in self.given if each.index is None)


def packet(index: int, *, source: int = 1, sequence: int = 0, timestamp: int = 0, skipped: int = 0) -> Packet:
    """The ``index``-th frame of a stream that begins with these numbers. ``skipped``: frames' time in which nothing was
    sent before it."""
    return Packet(
        source,
        (sequence + index) % 2**16,
        (timestamp + (index + skipped) * FRAME) % 2**32,
        FRAME,
        index.to_bytes(4),
    )


def stream(count: int, path: ImpairedPath, make: Callable[[int], Packet] = packet) -> list[tuple[float, Packet]]:
    return [(arrival, make(index)) for arrival, index in path.arrivals([index * FRAME_S for index in range(count)])]


def test_what_is_in_order_does_not_wait() -> None:
    run = Run().feed(stream(500, ImpairedPath(delay=0.05)))
    assert run.delivered == list(range(500))
    assert run.concealed == 0
    assert run.buffer.counts.buffered_s == 0.0


def test_what_is_late_within_the_paths_jitter_is_waited_for() -> None:
    run = Run().feed(stream(500, ImpairedPath(reordering=0.1)))
    assert run.delivered == list(range(500))
    assert run.concealed == 0


def test_a_lost_packet_is_a_concealed_frame_and_nothing_more() -> None:
    arrivals = stream(100, ImpairedPath())
    del arrivals[50]
    run = Run().feed(arrivals)
    assert run.delivered == [*range(50), *range(51, 100)]
    assert run.concealed == run.buffer.counts.lost == FRAME
    assert max(later.at - earlier.at for earlier, later in pairwise(run.given)) <= 0.08


def test_the_delay_is_back_after_a_loss_as_soon_as_the_hole_is_passed() -> None:
    arrivals = stream(100, ImpairedPath())
    del arrivals[50]
    run = Run().feed(arrivals)
    assert all(each.at == pytest.approx(each.position / RATE + 0.04) for each in run.given[54:])


def test_a_packet_that_comes_after_its_place_was_concealed_is_skipped() -> None:
    arrivals = stream(100, ImpairedPath())
    late = arrivals.pop(50)
    arrivals.insert(60, (arrivals[60][0], late[1]))
    run = Run().feed(arrivals)
    assert 50 not in run.delivered
    assert run.buffer.counts.late == 1
    assert run.buffer.counts.lost == FRAME


def test_a_packet_that_comes_twice_is_played_once() -> None:
    run = Run().feed(stream(300, ImpairedPath(duplicates=1.0)))
    assert run.delivered == list(range(300))
    assert run.buffer.counts.late == 300


SHARES = st.floats(0, 0.3)


@given(
    path=st.builds(
        ImpairedPath,
        jitter=st.floats(0, 0.1),
        loss=SHARES,
        reordering=SHARES,
        held_back=st.floats(0, 0.3),
        duplicates=SHARES,
        stalls=st.lists(
            st.tuples(st.floats(0, 4), st.floats(0, 1)).map(lambda each: (each[0], each[0] + each[1])), max_size=2
        ).map(tuple),
        seed=st.integers(0, 1000),
    ),
    sequence=st.integers(0, 2**16 - 1),
    timestamp=st.integers(0, 2**32 - 1),
)
def test_whatever_the_path_does_the_timeline_is_the_senders(path: ImpairedPath, sequence: int, timestamp: int) -> None:
    """In order, nothing twice, each packet at its place, and nothing missing but what was lost or late."""
    run = Run().feed(stream(250, path, lambda index: packet(index, sequence=sequence, timestamp=timestamp)), until=8.0)
    if not run.given:
        return
    first = run.delivered[0]
    assert run.delivered == sorted(set(run.delivered))
    assert all(each.position == (each.index - first) * FRAME for each in run.given if each.index is not None)
    counts = run.buffer.counts
    assert counts.packets == counts.late + counts.delivered
    assert counts.length == sum(each.stretch.duration for each in run.given)
    assert run.most_held <= MAX_HELD


@given(
    numbers=st.lists(st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 3)), max_size=80)
)
def test_numbers_that_make_no_sense_cost_bounded_time_and_memory(numbers: list[tuple[int, int, int]]) -> None:
    run = Run()
    for step, (sequence, timestamp, source) in enumerate(numbers):
        arrival = step * FRAME_S
        run.feed([(arrival, Packet(source, sequence, timestamp, FRAME, step.to_bytes(4)))])
    run.pass_time(5.0)
    assert run.most_held <= MAX_HELD
    # No more comes out than time has passed and sound has come in, but for a jump that may be taken for a pause each.
    assert run.buffer.counts.length <= (5.0 + 1.5) * RATE + len(numbers) * (FRAME + 1.1 * RATE)


IMPAIRED = ImpairedPath(jitter=0.012, loss=0.01, reordering=0.02, duplicates=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_at_one_percent_loss_hardly_more_than_that_is_missing_and_the_delay_is_short(seed: int) -> None:
    count = 15_000
    run = Run().feed(stream(count, replace(IMPAIRED, seed=seed)))
    assert run.concealed / run.position < 0.015
    assert run.buffer.counts.buffered_s / run.buffer.counts.delivered < 0.01
    assert run.buffer.counts.length == pytest.approx(count * FRAME, abs=2 * FRAME)


@pytest.mark.parametrize("seed", range(5))
def test_after_a_burst_everything_is_as_before_at_once(seed: int) -> None:
    run = Run().feed(stream(1500, replace(IMPAIRED, stalls=((10.0, 10.8),), seed=seed)))

    def buffering(start: float, end: float) -> float:
        delays = [
            each.at - (each.position / RATE + 0.04) for each in run.given if each.index and start <= each.at < end
        ]
        return sum(delays) / len(delays)

    assert buffering(11.0, 13.0) < 0.1
    assert buffering(13.0, 15.0) == pytest.approx(buffering(8.0, 10.0), abs=0.02)


def test_a_path_that_stalls_for_less_than_is_waited_loses_nothing() -> None:
    run = Run().feed(stream(500, ImpairedPath(stalls=((4.0, 4.19),))))
    assert run.delivered == list(range(500))


def test_while_nothing_comes_the_timeline_goes_on_in_real_time() -> None:
    run = Run().feed(stream(100, ImpairedPath(delay=0.0)), until=12.0)
    assert run.position / RATE == pytest.approx(12.0 - 0.2, abs=0.03)
    assert all(later.at - earlier.at < 0.3 for earlier, later in pairwise(run.given))


def test_thirty_seconds_without_packets_keep_the_timeline() -> None:
    """Sent at 2 s, a pause of 30 s, sent again: as the timestamps have it, however they were reckoned meanwhile."""
    before = stream(100, ImpairedPath())
    after = [
        (arrival + 32.0, packet(100 + index, skipped=1500))
        for arrival, each in stream(100, ImpairedPath())
        for index in [int.from_bytes(each.payload)]
    ]
    run = Run().feed(before + after)
    places = {each.index: each.position for each in run.given}
    assert run.delivered == list(range(200))
    assert places[100] == 1600 * FRAME
    assert run.buffer.counts.lost == 0
    assert run.buffer.counts.paused == 1500 * FRAME


def test_a_sender_whose_clock_stood_still_meanwhile_is_heard_again() -> None:
    before = stream(100, ImpairedPath())
    after = [(arrival + 32.0, packet(100 + int.from_bytes(each.payload))) for arrival, each in before]
    run = Run().feed(before + after)
    heard = [index for index in run.delivered if index >= 100]
    assert heard == list(range(heard[0], 200))
    assert heard[0] <= 103
    places = {each.index: each.position for each in run.given}
    assert places[heard[0]] / RATE == pytest.approx(32.0 + (heard[0] - 100) * FRAME_S, abs=0.25)


def test_silence_suppression_is_filled_in_time_and_is_no_loss() -> None:
    """A frame every 400 ms, and the timeline does not wait for it: a turn ends when it ends."""
    talking = [(index * FRAME_S, packet(index)) for index in range(50)]
    pausing = [
        ((50 + 20 * step) * FRAME_S, replace(packet(50 + step, skipped=19 * step), pausing=True)) for step in range(10)
    ]
    run = Run().feed(talking + pausing)
    assert run.delivered == list(range(60))
    assert run.buffer.counts.lost == 0
    assert run.buffer.counts.late == 0
    assert max(each.at - each.position / RATE for each in run.given) < 0.07


def test_a_gap_in_the_timestamps_without_one_in_the_numbers_is_not_waited_for() -> None:
    run = Run().feed([(index * FRAME_S, packet(index)) for index in range(50)])
    run.feed([(53 * FRAME_S, packet(50, skipped=3))])
    assert run.delivered[-1] == 50
    assert run.given[-1].at == 53 * FRAME_S
    assert run.buffer.counts.paused == 3 * FRAME


def test_another_source_goes_on_where_the_first_one_ended() -> None:
    before = stream(100, ImpairedPath())
    after = [
        (arrival + 2.0, packet(int.from_bytes(each.payload), source=2, sequence=4711, timestamp=12345))
        for arrival, each in stream(100, ImpairedPath())
    ]
    run = Run().feed(before + after)
    assert run.delivered == [*range(100), *range(100)]
    assert run.concealed == 0


@pytest.mark.parametrize("step", [0.1, 0.3, 0.8])
def test_a_path_that_becomes_slower_costs_what_it_became_slower_by(step: float) -> None:
    run = Run().feed(stream(1000, ImpairedPath(slower=(10.0, step))))
    assert run.concealed / RATE <= step + 0.06
    assert run.delivered[-300:] == list(range(700, 1000))


def test_a_path_that_becomes_faster_costs_at_most_what_is_overtaken() -> None:
    run = Run().feed(stream(1000, ImpairedPath(delay=0.34, slower=(10.0, -0.3))))
    assert set(range(1000)) - set(run.delivered) <= set(range(485, 500))
    assert run.concealed <= 15 * FRAME


@pytest.mark.parametrize("drift", [-5e-4, 5e-4])
def test_a_senders_clock_that_drifts_costs_nothing(drift: float) -> None:
    rng = random.Random(3)
    run = Run().feed((index * FRAME_S * (1 + drift) + rng.uniform(0, 0.01), packet(index)) for index in range(30_000))
    assert run.delivered == list(range(30_000))


def test_frames_of_another_length_and_overlaps_keep_every_sample_in_its_place() -> None:
    """The timeline was filled half into a frame: the rest of it is still used."""
    run = Run().feed([(index * FRAME_S, packet(index)) for index in range(50)])
    run.pass_time(3.0)
    long = Packet(1, 50, 50 * FRAME + 96 * FRAME + 480, 3 * FRAME, (50).to_bytes(4))
    run.feed([(3.0, long)])
    last = run.given[-1]
    assert last.index == 50
    assert last.position + last.stretch.duration == long.timestamp + long.duration
    assert last.stretch.skip == last.position - long.timestamp
