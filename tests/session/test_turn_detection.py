"""Turns from probabilities alone: one 32 ms window each."""

from __future__ import annotations

import itertools

import pytest

from voice_omni.session.activity import Frame
from voice_omni.session.silero import WINDOW
from voice_omni.session.turn_detection import (
    JudgedSilence,
    Paused,
    Resumed,
    SemanticSettings,
    Started,
    Stopped,
    TurnDetector,
    TurnEvent,
    TurnSettings,
    Undecided,
)

SETTINGS = TurnSettings(
    threshold=0.5,
    release=0.35,
    lag=0,
    min_speech=3 * WINDOW,
    min_resumption=2 * WINDOW,
    short_pause=6 * WINDOW,
    silence=15 * WINDOW,
    max_utterance=100 * WINDOW,
)
SPEECH, SILENCE, BETWEEN = 0.9, 0.1, 0.4


def run(*runs: tuple[float, int], detector: TurnDetector | None = None) -> list[TurnEvent]:
    """``runs``: a probability and for how many windows. Positions in the events are then windows, not samples."""
    detector = detector or TurnDetector(SETTINGS)
    windows = itertools.chain.from_iterable([probability] * count for probability, count in runs)
    events = (detector.update(Frame((number + 1) * WINDOW, p)) for number, p in enumerate(windows))
    return [event for event in events if event is not None]


def test_a_turn() -> None:
    assert run((SILENCE, 10), (SPEECH, 20), (SILENCE, 20)) == [
        Started(onset=10 * WINDOW, at=13 * WINDOW),
        Paused(quiet_from=30 * WINDOW, at=36 * WINDOW),
        Stopped(quiet_from=30 * WINDOW, at=45 * WINDOW, cause="silence"),
    ]


def test_speech_that_is_too_short_starts_nothing() -> None:
    assert run(*[(SPEECH, 2), (SILENCE, 1)] * 10) == []


def test_a_wavering_onset_keeps_its_beginning() -> None:
    assert run((SPEECH, 1), (BETWEEN, 1), (SPEECH, 1)) == [Started(onset=0, at=3 * WINDOW)]


def test_between_the_thresholds_nothing_flickers() -> None:
    assert run((SPEECH, 5), *[(BETWEEN, 3), (SPEECH, 1)] * 10) == [Started(onset=0, at=3 * WINDOW)]
    assert run((BETWEEN, 50)) == []


def test_going_on_after_a_pause() -> None:
    kinds = [type(event) for event in run((SPEECH, 5), (SILENCE, 8), (SPEECH, 5), (SILENCE, 15))]
    assert kinds == [Started, Paused, Resumed, Paused, Stopped]


def test_a_pause_shorter_than_the_short_one_is_nothing() -> None:
    assert run((SPEECH, 5), (SILENCE, 5), (SPEECH, 5)) == [Started(onset=0, at=3 * WINDOW)]


def test_a_click_in_the_silence_neither_resumes_nor_delays() -> None:
    events = run((SPEECH, 5), (SILENCE, 8), (SPEECH, 1), (SILENCE, 20))
    assert events[1:] == [
        Paused(quiet_from=5 * WINDOW, at=11 * WINDOW),
        Stopped(quiet_from=5 * WINDOW, at=20 * WINDOW, cause="silence"),
    ]


def test_speech_that_begins_in_the_last_window_of_the_silence_is_waited_for() -> None:
    kinds = [type(event) for event in run((SPEECH, 5), (SILENCE, 14), (SPEECH, 5))]
    assert kinds == [Started, Paused, Resumed]


def test_a_turn_that_is_too_long_ends_and_the_next_begins() -> None:
    events = run((SPEECH, 120))
    assert events == [
        Started(onset=0, at=3 * WINDOW),
        Stopped(quiet_from=100 * WINDOW, at=100 * WINDOW, cause="max_utterance"),
        Started(onset=100 * WINDOW, at=103 * WINDOW),
    ]


def test_starving_ends_the_turn_under_way_and_nothing_else() -> None:
    detector = TurnDetector(SETTINGS)
    assert detector.starve(0) is None
    run((SPEECH, 10), detector=detector)
    assert detector.engaged
    assert detector.starve(11 * WINDOW) == Stopped(11 * WINDOW, 11 * WINDOW, "starved")
    assert not detector.engaged


@pytest.mark.parametrize("silence", [2, 6])
def test_a_silence_as_short_as_the_pause_ends_the_turn_at_once(silence: int) -> None:
    settings = TurnSettings(0.5, 0.35, 0, 3 * WINDOW, 2 * WINDOW, silence * WINDOW, silence * WINDOW, 100 * WINDOW)
    kinds = [type(event) for event in run((SPEECH, 5), (SILENCE, 8), detector=TurnDetector(settings))]
    assert kinds == [Started, Stopped]


# Silence and a judge


SEMANTIC = SemanticSettings(ask_after=8 * WINDOW, ask_again=10 * WINDOW, max_wait=60 * WINDOW)


def judged() -> TurnDetector:
    return TurnDetector(SETTINGS, stop=JudgedSilence(SEMANTIC))


def test_a_silence_is_judged_and_ends_the_turn_where_it_was() -> None:
    detector = judged()
    assert run((SPEECH, 5), (SILENCE, 8), detector=detector)[1:] == [
        Paused(quiet_from=5 * WINDOW, at=11 * WINDOW),
        Undecided(quiet_from=5 * WINDOW, at=13 * WINDOW),
    ]
    assert detector.decide(13 * WINDOW, True) == Stopped(5 * WINDOW, 13 * WINDOW, "complete")
    assert not detector.engaged


def test_a_turn_that_sounds_unfinished_is_judged_again_and_waited_for_only_so_long() -> None:
    detector, position, asked = judged(), 5, []
    run((SPEECH, 5), detector=detector)
    while detector.engaged:
        position += 1
        match detector.update(Frame(position * WINDOW, SILENCE)):
            case Undecided(_, at):
                asked.append(at // WINDOW - 5)
                assert detector.decide(at, False) is None
            case Stopped() as stopped:
                assert stopped == Stopped(5 * WINDOW, 65 * WINDOW, "silence")
    assert asked == [8, 18, 28, 38, 48, 58]


def test_without_a_judgement_silence_decides_alone() -> None:
    detector = judged()
    run((SPEECH, 5), (SILENCE, 8), detector=detector)
    assert detector.decide(13 * WINDOW, None) is None
    events = [detector.update(Frame(number * WINDOW, SILENCE)) for number in range(14, 21)]
    assert [event for event in events if event is not None] == [Stopped(5 * WINDOW, 20 * WINDOW, "silence")]


def test_going_on_after_a_judgement_makes_the_next_silence_a_new_question() -> None:
    detector = judged()
    run((SPEECH, 5), (SILENCE, 8), detector=detector)
    detector.decide(13 * WINDOW, False)
    events = [detector.update(Frame((14 + n) * WINDOW, p)) for n, p in enumerate([SPEECH] * 5 + [SILENCE] * 8)]
    assert [type(event) for event in events if event is not None] == [Resumed, Paused, Undecided]


def test_whoever_judges_from_the_middle_of_a_pause_on_knows_nothing_of_it() -> None:
    detector = TurnDetector(SETTINGS)
    run((SPEECH, 5), (SILENCE, 8), detector=detector)
    assert detector.paused
    detector.judge_by(JudgedSilence(SEMANTIC))
    assert not detector.paused
    events = [detector.update(Frame((14 + n) * WINDOW, SILENCE)) for n in range(8)]
    assert [type(event) for event in events if event is not None] == [Paused, Undecided]


def test_a_noise_in_the_silence_puts_the_question_off_until_it_is_over() -> None:
    kinds = [type(event) for event in run((SPEECH, 5), (SILENCE, 7), (SPEECH, 1), (SILENCE, 1), detector=judged())]
    assert kinds == [Started, Paused, Undecided]


def test_how_long_speech_has_lasted_does_not_count_the_silence_after_it() -> None:
    detector = TurnDetector(SETTINGS)
    assert detector.voiced(0) == 0
    lasted = []
    for number, probability in enumerate([SPEECH] * 10 + [SILENCE] * 5, 1):
        detector.update(Frame(number * WINDOW, probability))
        lasted.append(detector.voiced(number * WINDOW) // WINDOW)
    assert lasted == [0, 0, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10, 10]
