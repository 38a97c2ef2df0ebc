"""Levels in, segments out: no sound and no model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.models.starter.listen_segments import (
    AFTER,
    BEFORE,
    GAP,
    LONG,
    LONG_GAP,
    LONGEST,
    SHORT,
    Segment,
    Segmenter,
    frame_levels,
)

SPEECH, ROOM, NOTHING = -25.0, -55.0, -120.0


def levels(*parts: tuple[float, int]) -> list[float]:
    return [level for level, frames in parts for _ in range(frames)]


def heard(sound: list[float]) -> tuple[Segmenter, list[Segment]]:
    segmenter = Segmenter()
    return segmenter, segmenter.push(sound)


def test_levels_are_decibels_of_full_scale() -> None:
    sine = np.sin(np.arange(1600) * 0.1 * np.pi).astype(np.float32)
    np.testing.assert_allclose(frame_levels(sine), np.full(10, -3.01), atol=0.01)
    assert len(frame_levels(np.zeros(159, np.float32))) == 0
    assert frame_levels(np.zeros(160, np.float32))[0] == pytest.approx(-120)


@pytest.mark.parametrize("room", [ROOM, NOTHING])
def test_the_words_with_a_little_around_them(room: float) -> None:
    segmenter, closed = heard(levels((room, 200), (SPEECH, 100), (room, 15)))
    assert closed == []
    assert segmenter.tail() == Segment(200 - BEFORE if room == NOTHING else 0, 300 + AFTER)


def test_silence_has_no_words_and_is_forgotten() -> None:
    segmenter, _ = heard(levels((NOTHING, 5000)))
    assert segmenter.tail() is None
    assert not segmenter.settled
    assert segmenter.oldest == 5000 - BEFORE


def test_it_settles_when_silence_has_lasted_a_moment_and_then_stays_as_it_is() -> None:
    segmenter, _ = heard(levels((NOTHING, 50), (SPEECH, 100)))
    for frame in range(1, 50):
        segmenter.push([NOTHING])
        assert segmenter.settled == (frame >= AFTER)
        assert segmenter.tail() == Segment(50 - BEFORE, 150 + min(frame, AFTER))
    segmenter.push([SPEECH])
    assert not segmenter.settled


def test_long_speech_is_closed_at_a_pause() -> None:
    segmenter, closed = heard(levels((SPEECH, LONG + 100), (NOTHING, GAP), (SPEECH, 50)))
    assert closed == [Segment(0, LONG + 100 + AFTER)]
    assert segmenter.tail() == Segment(LONG + 100 + AFTER, LONG + 150 + GAP)
    assert segmenter.oldest == LONG + 100 + AFTER


@pytest.mark.parametrize(
    ("spoken", "gap"), [(LONG, GAP), ((SHORT + LONG) // 2, (LONG_GAP + GAP) // 2), (SHORT, LONG_GAP)]
)
def test_the_longer_the_segment_the_shorter_the_pause_that_closes_it(spoken: int, gap: int) -> None:
    segmenter, closed = heard(levels((SPEECH, spoken), (NOTHING, gap - 1)))
    assert closed == []
    assert segmenter.push([NOTHING]) == [Segment(0, spoken + AFTER)]


def test_a_few_words_stay_open_whatever_follows() -> None:
    segmenter, closed = heard(levels((SPEECH, SHORT - 1), (NOTHING, 1000)))
    assert closed == []
    assert segmenter.tail() == Segment(0, SHORT - 1 + AFTER)


def test_speech_without_a_pause_is_closed_where_it_is_quietest() -> None:
    dip = LONGEST - 300
    segmenter, closed = heard(levels((SPEECH, dip), (SPEECH - 10, 20), (SPEECH, LONGEST)))
    assert dip <= closed[0].end <= dip + 20
    assert segmenter.tail() is not None


@st.composite
def speeches(draw: st.DrawFn) -> list[float]:
    parts = st.tuples(st.sampled_from([SPEECH, SPEECH + 15, SPEECH - 12, ROOM, NOTHING]), st.integers(1, 900))
    return levels(*draw(st.lists(parts, max_size=20)))


@given(sound=speeches(), cuts=st.lists(st.integers(0, 10_000), max_size=30))
def test_however_the_sound_arrives_the_segments_are_the_same(sound: list[float], cuts: list[int]) -> None:
    whole, closed = heard(sound)
    pieces, found = Segmenter(), []
    edges = [0, *sorted(cut % (len(sound) + 1) for cut in cuts), len(sound)]
    for start, stop in itertools.pairwise(edges):
        found += pieces.push(sound[start:stop])
    assert (found, pieces.tail(), pieces.settled, pieces.oldest) == (closed, whole.tail(), whole.settled, whole.oldest)


@given(sound=speeches())
def test_segments_are_bounded_and_in_order_and_hold_everything_loud(sound: list[float]) -> None:
    segmenter, closed = heard(sound)
    tail = segmenter.tail()
    segments = [*closed, tail] if tail else closed
    assert all(0 < segment.frames <= LONGEST for segment in segments)
    assert all(one.end <= other.start for one, other in itertools.pairwise(segments))
    covered = {frame for segment in segments for frame in range(segment.start, segment.end)}
    assert {frame for frame, level in enumerate(sound) if level == SPEECH + 15} <= covered
    assert segmenter.oldest <= len(sound)
