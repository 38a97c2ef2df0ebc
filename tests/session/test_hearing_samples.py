"""Every sample has one owner at the most, and a voice is heard from its first one, wherever a turn ends.

The sound numbers its own samples, and the probabilities of its windows are chosen instead of judged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_omni.audio.pcm import Samples
from voice_omni.realtime.settings import SemanticVad, ServerVad, TurnDetection
from voice_omni.session.activity import Frame, VoiceActivity
from voice_omni.session.hearing import Heard, Hearing, HearingEvent, Question, TurnBegan
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import RATE, WINDOW
from voice_omni.session.turn_detection import Paused, Resumed, Stopped

SPEECH, SILENCE, BETWEEN = 0.9, 0.1, 0.4
PREFIX = ServerVad().prefix_padding_ms * RATE // 1000
MIN_SPEECH = SessionOptions().min_speech_ms * RATE // 1000


class ChosenActivity(VoiceActivity):
    """Judges windows by a list; what comes after it is silence."""

    def __init__(self, probabilities: Sequence[float]) -> None:
        self._probabilities = probabilities
        self.reset(0)

    def reset(self, position: int) -> None:
        self._position = position
        self._rest = np.zeros(0, np.float32)

    def judge(self, window: Samples, engaged: bool) -> Frame:
        self._position += WINDOW
        number = (self._position - 1) // WINDOW
        return Frame(self._position, self._probabilities[number] if number < len(self._probabilities) else SILENCE)


@dataclass
class Told:
    """A turn: the numbers of its samples, and how many an answer that was not begun anew afterwards would lack."""

    begin: int
    samples: list[int] = field(default_factory=list)
    lacks: int = 0
    answered_at: int | None = None


def turns_of(events: Sequence[HearingEvent]) -> list[Told]:
    turns: list[Told] = []
    for event in events:
        match event:
            case TurnBegan(begin, _):
                turns.append(Told(begin))
            case Heard(samples, _):
                turns[-1].samples += samples.astype(int).tolist()
                turns[-1].answered_at = None  # the turn goes on: a session begins its answer anew
            case Paused() | Stopped():
                if turns[-1].answered_at is None:
                    turns[-1].answered_at = len(turns[-1].samples)
            case Resumed():
                turns[-1].answered_at = None
    return turns


def numbered(count: int) -> Samples:
    return np.arange(count, dtype=np.float32)  # exact below 2 ** 24


def stretches(probabilities: Sequence[float]) -> list[tuple[int, int]]:
    """Where speech is that nobody can doubt: windows above the threshold, as long as it takes and longer."""
    found, position = [], 0
    for speaks, group in itertools.groupby(probabilities, lambda each: each == SPEECH):
        length = len(list(group)) * WINDOW
        if speaks and length >= MIN_SPEECH:
            found.append((position, position + length))
        position += length
    return found


def played(ear: Hearing, sound: Samples, borders: Sequence[int], verdict: Callable[[int], bool]) -> list[HearingEvent]:
    def answered(events: list[HearingEvent]) -> list[HearingEvent]:
        result: list[HearingEvent] = []
        for event in events:
            result.append(event)
            if isinstance(event, Question):
                result += answered(ear.decide(event.number, verdict(event.number)))
        return result

    cuts = sorted({0, len(sound), *(min(border, len(sound)) for border in borders), *range(0, len(sound), 3200)})
    return [event for start, end in pairwise(cuts) for event in answered(ear.push(sound[start:end], RATE))]


def ear_for(probabilities: Sequence[float], vad: TurnDetection) -> Hearing:
    return Hearing(ChosenActivity(probabilities), RATE, vad, SessionOptions())


VADS: list[TurnDetection] = [
    ServerVad(),
    ServerVad(silence_duration_ms=0),
    ServerVad(silence_duration_ms=200),
    ServerVad(silence_duration_ms=2000),
    SemanticVad(),
    SemanticVad(eagerness="high"),
]
RUNS = st.lists(st.tuples(st.sampled_from([SPEECH, SILENCE, BETWEEN]), st.integers(1, 24)), min_size=1, max_size=14)


@settings(max_examples=300)
@given(
    runs=RUNS,
    vad=st.sampled_from(VADS),
    borders=st.lists(st.integers(0, 400 * WINDOW), max_size=20),
    verdicts=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_no_sample_is_lost_or_heard_twice(
    runs: list[tuple[float, int]], vad: TurnDetection, borders: list[int], verdicts: list[bool]
) -> None:
    probabilities = [probability for probability, count in runs for _ in range(count)]
    sound = numbered(len(probabilities) * WINDOW + 10 * RATE)
    events = played(ear_for(probabilities, vad), sound, borders, lambda number: verdicts[number % len(verdicts)])
    turns = turns_of(events)
    heard = [number for turn in turns for number in turn.samples]
    assert all(before < after for before, after in pairwise(heard)), "in order, and each once"
    for turn in turns:
        assert turn.samples == list(range(turn.begin, turn.begin + len(turn.samples))), "without a hole"
        assert turn.answered_at == len(turn.samples), "all of it is in the answer"
    everything = set(heard)
    for start, end in stretches(probabilities):
        assert everything >= set(range(max(0, start - PREFIX), end)), "with its pre-roll"


@pytest.mark.parametrize("vad", VADS, ids=str)
def test_a_voice_that_begins_in_the_window_that_ends_a_turn_is_the_next_ones(vad: TurnDetection) -> None:
    """The window sounds quiet, but its end is the soft beginning of a word."""
    first = [SPEECH] * 10
    [stopped] = [
        event
        for event in played(ear_for(first, vad), numbered(10 * RATE), [], lambda _: True)
        if isinstance(event, Stopped)
    ]
    last = stopped.at // WINDOW
    probabilities = [*first, *[SILENCE] * (last - len(first)), *[SPEECH] * 10]
    turns = turns_of(played(ear_for(probabilities, vad), numbered(10 * RATE), [], lambda _: True))
    assert len(turns) == 2
    assert turns[1].begin <= stopped.at - WINDOW
    assert turns[0].samples[-1] + 1 <= turns[1].samples[0]


@pytest.mark.parametrize("end", ["cut", "starve", "by hand", "other judge"])
def test_a_voice_too_short_to_count_is_the_turns_if_something_else_ends_it(end: str) -> None:
    probabilities = [*[SPEECH] * 10, *[SILENCE] * 10, SPEECH]
    ear = ear_for(probabilities, ServerVad())
    sound = numbered(len(probabilities) * WINDOW)
    events = ear.push(sound, RATE)
    assert isinstance(events[-1], Paused)
    match end:
        case "cut":
            events += ear.cut()
        case "starve":
            events += ear.starve()
        case "by hand":
            ear.configure(None)
            events += ear.push(sound[:0], RATE)
        case "other judge":
            ear.configure(SemanticVad())
            events += ear.push(numbered(len(sound) + WINDOW)[len(sound) :], RATE)
    [turn] = turns_of(events)
    assert turn.samples[: len(sound)] == list(range(len(sound)))


@pytest.mark.parametrize("end", ["cut", "starve"])
def test_the_silence_after_a_pause_is_not_the_turns(end: str) -> None:
    probabilities = [*[SPEECH] * 10, *[SILENCE] * 10]
    ear = ear_for(probabilities, ServerVad())
    events = ear.push(numbered(len(probabilities) * WINDOW), RATE)
    [paused] = [event for event in events if isinstance(event, Paused)]
    events += ear.cut() if end == "cut" else ear.starve()
    assert turns_of(events)[0].samples == list(range(paused.at))
