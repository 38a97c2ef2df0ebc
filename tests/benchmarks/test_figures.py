"""What is said of answers follows from when their sound came."""

from __future__ import annotations

import math

import pytest

from benchmarks.full_size.figures import PARTS, figures, gap_s, percentile, split_table
from benchmarks.full_size.people import Turn
from voice_omni.client.interface import StageTiming
from voice_omni.proto.errors import ErrorInfo

RATE, FRAME = 1000, 100


def timings(**moments: float) -> dict[str, StageTiming]:
    at = {"audio_encoder": 0.0, "decode": 0.0, "talker": 0.0, "code2wav": 0.0, **moments}
    return {name: StageTiming(moment, None, moment, moment) for name, moment in at.items()}


@pytest.mark.parametrize(
    ("sounds", "silent"),
    [
        ([(5.0, 100), (5.1, 100), (5.2, 100)], 0.0),
        ([(5.0, 100), (5.0, 400), (5.4, 100)], 0.0),
        ([(5.0, 100), (5.3, 100)], 0.2),
        ([(5.0, 100), (5.15, 100), (5.2, 100), (5.5, 100)], 0.2),
        ([(5.0, 100)], 0.0),
        ([], 0.0),
    ],
    ids=["just in time", "far ahead", "late", "late twice", "one chunk", "nothing"],
)
def test_a_gap_is_what_a_listener_waits_for(sounds: list[tuple[float, int]], silent: float) -> None:
    assert gap_s(sounds, RATE) == pytest.approx(silent)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert percentile([3.0, 1.0], 0.95) == 3.0
    assert math.isnan(percentile([], 0.5))


def test_times_count_from_the_commit() -> None:
    passed = timings(audio_encoder=10.01, decode=10.03, talker=10.06, code2wav=10.1)
    found = figures([Turn(10.0, [(10.2, 50), (10.5, 350)], passed)], RATE, FRAME)
    assert found.first_ms == pytest.approx([200])
    assert found.frame_ms == pytest.approx([300 / 3.5])
    assert found.real_time == pytest.approx([0.5 / 0.4])
    assert found.frames == [4]
    assert found.gaps_ms == pytest.approx([250])
    assert found.gap_free == 0
    spent = {name: pytest.approx([ms]) for name, ms in zip(PARTS, (10, 20, 30, 40, 100), strict=True)}
    assert found.split_ms == spent


def test_an_interrupted_answer_tells_when_it_began_and_how_it_ended() -> None:
    found = figures([Turn(10.0, [(10.2, 50)], abort_s=0.015)], RATE, FRAME)
    assert (found.first_ms, found.abort_ms) == (pytest.approx([200]), pytest.approx([15]))
    assert (found.frames, found.real_time) == ([], [])


def test_failures_are_counted_by_their_code() -> None:
    failed = Turn(failure=ErrorInfo("overloaded", "too many"))
    assert figures([failed, failed], RATE, FRAME).failed == {"overloaded": 2}


def test_the_parts_of_the_first_sound_stand_beside_each_other_for_all_crowds() -> None:
    def turn(later: float) -> Turn:
        passed = timings(audio_encoder=10.01, decode=10.03, talker=10.06 + later, code2wav=10.1 + later)
        return Turn(10.0, [(10.2 + later, 50)], passed)

    found = {people: figures([turn(later)], RATE, FRAME) for people, later in ((1, 0.0), (4, 0.5))}
    table = split_table({**found, 8: figures([], RATE, FRAME)}).splitlines()
    assert table[0].endswith("| 1 people | 4 people |")
    assert table[2:5] == ["| audio_encoder | 10.0 | 10.0 |", "| thinker | 20.0 | 20.0 |", "| talker | 30.0 | 530.0 |"]
