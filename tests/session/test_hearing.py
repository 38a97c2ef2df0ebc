"""Turns from sound: the labelled recordings, and everything that is no speech."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.sounds import NOT_SPEECH, pink_noise
from tests.support.speech import Recording, recording, recordings
from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler
from voice_omni.realtime.settings import SemanticVad, ServerVad, TurnDetection
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.hearing import Heard, Hearing, HearingEvent, Question, TurnBegan
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.session.turn_detection import Paused, Resumed, Stopped

RATE = 24000
VAD = ServerVad()


def hearing(silero: SileroModel, vad: TurnDetection | None = VAD, model_rate: int = 16000) -> Hearing:
    return Hearing(VoiceActivity(silero), model_rate, vad, SessionOptions())


def joined(events: list[HearingEvent]) -> list[object]:
    """The events, with the sound of each stretch in one piece, as bytes."""
    result: list[object] = []
    for event in events:
        if isinstance(event, Heard) and result and isinstance(result[-1], bytes):
            result[-1] += event.samples.tobytes()
        else:
            result.append(event.samples.tobytes() if isinstance(event, Heard) else event)
    return result


def heard(events: list[HearingEvent]) -> Samples:
    return np.concatenate([event.samples for event in events if isinstance(event, Heard)])


def resampled(samples: Samples) -> Samples:
    resampler = StreamResampler(RATE, 16000)
    return np.concatenate([resampler.push(samples), resampler.flush()])


@pytest.mark.parametrize("each", recordings(), ids=lambda each: each.name)
def test_each_recording_is_one_turn_with_its_labelled_ends(silero: SileroModel, each: Recording) -> None:
    events = hearing(silero).push(each.samples(RATE), RATE)
    [began] = [event for event in events if isinstance(event, TurnBegan)]
    [stopped] = [event for event in events if isinstance(event, Stopped)]
    onset = began.begin / 16000 + VAD.prefix_padding_ms / 1000
    # Three readings begin and end with breath and reverberation that the labels count as speech.
    assert -0.05 < onset - each.speech_start < (0.35 if each.name.startswith("human-0") else 0.13)
    assert -0.28 < stopped.quiet_from / 16000 - each.speech_end < 0.15
    assert 0.5 <= (stopped.at - stopped.quiet_from) / 16000 < 0.54


@pytest.mark.parametrize("name", NOT_SPEECH)
def test_what_is_not_speech_starts_no_turn(silero: SileroModel, name: str) -> None:
    assert hearing(silero).push(NOT_SPEECH[name](8.0), RATE) == []


def test_speech_in_noise_still_ends(silero: SileroModel) -> None:
    samples = recording("question-04").samples(RATE)
    noisy = samples + pink_noise(len(samples) / RATE + 1, 0.02)[: len(samples)]
    kinds = [type(event) for event in hearing(silero).push(noisy, RATE) if not isinstance(event, Heard)]
    assert kinds[0] is TurnBegan
    assert kinds[-1] is Stopped


def test_the_models_sound_begins_300_ms_before_the_trigger_and_is_the_persons_sample_for_sample(
    silero: SileroModel,
) -> None:
    samples = recording("human-13").samples(RATE)
    events = hearing(silero).push(samples, RATE)
    [began] = [event for event in events if isinstance(event, TurnBegan)]
    paused = [event for event in events if isinstance(event, Paused)][-1]
    assert began.at - began.begin >= 0.3 * 16000
    assert np.array_equal(heard(events), resampled(samples)[began.begin : paused.at])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 6 * RATE), max_size=12), chunk=st.sampled_from([0, 1001, 480, 7777]))
def test_however_the_sound_is_cut_the_same_turns_come_out(silero: SileroModel, cuts: list[int], chunk: int) -> None:
    first, second = recording("question-10").samples(RATE), recording("question-11").samples(RATE)
    samples = np.concatenate([first, second])
    whole = joined(hearing(silero).push(samples, RATE))
    ear = hearing(silero)
    regular = range(0, len(samples), chunk) if chunk else []
    borders = sorted({0, len(samples), *(min(cut, len(samples)) for cut in cuts), *regular})
    pieces = [event for start, end in pairwise(borders) for event in ear.push(samples[start:end], RATE)]
    assert joined(pieces) == whole
    assert sum(isinstance(event, Stopped) for event in whole) == 2


def test_empty_pieces_change_nothing(silero: SileroModel) -> None:
    samples = recording("question-10").samples(RATE)
    ear = hearing(silero)
    events: list[HearingEvent] = []
    for start in range(0, len(samples), 480):
        events += ear.push(samples[:0], RATE) + ear.push(samples[start : start + 480], RATE)
    assert joined(events) == joined(hearing(silero).push(samples, RATE))


def test_the_next_turn_reaches_back_to_where_the_one_before_was_last_heard_and_no_further(silero: SileroModel) -> None:
    samples = np.concatenate([recording("question-10").samples(RATE), recording("question-10").samples(RATE)])
    # A pause that ends the first turn right before the second begins: the pre-roll would reach back into its words.
    ear = hearing(silero, ServerVad(silence_duration_ms=1800, prefix_padding_ms=2500))
    events = ear.push(samples, RATE)
    [first, second] = [event for event in events if isinstance(event, TurnBegan)]
    paused = next(event for event in events if isinstance(event, Paused))
    stopped = next(event for event in events if isinstance(event, Stopped))
    assert second.begin == paused.at < stopped.at
    assert np.array_equal(heard(events), resampled(samples)[first.begin : first.begin + len(heard(events))]), (
        "the two turns together are the stream without a gap"
    )
    assert len(heard(events[: events.index(stopped)])) == paused.at - first.begin


def test_a_pause_between_two_phrases_prepares_an_answer_and_going_on_revokes_it(silero: SileroModel) -> None:
    speech = recording("question-11").samples(RATE)[RATE // 2 : int(1.77 * RATE)]
    gap = np.zeros(int(0.35 * RATE), np.float32)
    events = hearing(silero).push(np.concatenate([np.zeros(RATE, np.float32), speech, gap, speech, gap, gap]), RATE)
    kinds = [type(event) for event in events if not isinstance(event, Heard)]
    assert kinds == [TurnBegan, Paused, Resumed, Paused, Stopped]


def test_without_turn_detection_everything_is_heard_to_the_last_sample(silero: SileroModel) -> None:
    samples = recording("question-10").samples(RATE)
    ear = hearing(silero, None)
    events: list[HearingEvent] = [*ear.push(samples, RATE), *ear.cut()]
    assert np.array_equal(heard(events), resampled(samples))


@pytest.mark.parametrize("lengths", [[1], [100, 1], [24001, 7, 480]])
def test_cuts_by_hand_keep_the_clock_exact(silero: SileroModel, lengths: list[int]) -> None:
    ear, total = hearing(silero, None), 0
    for _ in range(50):
        for length in lengths:
            ear.push(np.zeros(length, np.float32), RATE)
            ear.cut()
            total += length
    assert ear.position_ms == -(-total * 16000 // RATE) * 1000 // 16000


def test_a_cut_ends_the_turn_under_way_and_the_rest_is_the_next_ones(silero: SileroModel) -> None:
    samples = recording("human-11").samples(RATE)
    ear = hearing(silero)
    before = ear.push(samples[: 2 * RATE], RATE)
    assert ear.engaged
    rest = ear.cut()
    assert not ear.engaged
    [began] = [event for event in before if isinstance(event, TurnBegan)]
    total = len(heard([*before, *rest]))
    assert began.begin + total == 2 * 16000
    [again, *_] = [event for event in ear.push(samples[2 * RATE :], RATE) if isinstance(event, TurnBegan)]
    assert again.begin >= 2 * 16000


def test_8_khz_sound_is_heard_as_well(silero: SileroModel) -> None:
    each = recording("human-13")
    kinds = [type(event) for event in hearing(silero).push(each.samples(8000), 8000)]
    assert kinds.count(TurnBegan) == kinds.count(Stopped) == 1


def test_the_model_may_take_another_rate(silero: SileroModel) -> None:
    samples = recording("question-10").samples(RATE)
    events = hearing(silero, model_rate=24000).push(samples, RATE)
    [began] = [event for event in events if isinstance(event, TurnBegan)]
    sound = heard(events)
    start = began.begin * 3 // 2
    assert np.array_equal(sound, samples[start : start + len(sound)])


def test_settings_can_change_in_the_middle_of_a_turn(silero: SileroModel) -> None:
    samples = recording("question-10").samples(RATE)
    ear = hearing(silero)
    ear.push(samples[:RATE], RATE)
    ear.configure(ServerVad(silence_duration_ms=900))
    [stopped] = [event for event in ear.push(samples[RATE:], RATE) if isinstance(event, Stopped)]
    assert 0.9 <= (stopped.at - stopped.quiet_from) / 16000 < 0.94


def test_another_input_rate_in_the_middle_of_a_sentence_is_the_same_turn(silero: SileroModel) -> None:
    each = recording("human-11")
    first, second = each.samples(RATE)[: 2 * RATE], each.samples(8000)[2 * 8000 :]
    ear = hearing(silero)
    events = [*ear.push(first, RATE), *ear.push(second, 8000)]
    kinds = [type(event) for event in events]
    assert kinds.count(TurnBegan) == kinds.count(Stopped) == 1
    assert ear.position_ms == pytest.approx(len(each.samples(8000)) / 8, abs=5)


# Judged turns


SEMANTIC = SemanticVad()


def answered(
    ear: Hearing, events: list[HearingEvent], complete: Callable[[Question], bool | None]
) -> list[HearingEvent]:
    """All events, questions answered as they come."""
    result: list[HearingEvent] = []
    for event in events:
        result.append(event)
        if isinstance(event, Question):
            result += answered(ear, ear.decide(event.number, complete(event)), complete)
    return result


def pushed(
    ear: Hearing, samples: Samples, complete: Callable[[Question], bool | None], borders: list[int] | None = None
) -> list[HearingEvent]:
    borders = borders or list(range(0, len(samples), 480))
    pieces = pairwise(sorted({0, *borders, len(samples)}))
    return [event for start, end in pieces for event in answered(ear, ear.push(samples[start:end], RATE), complete)]


def test_a_question_holds_the_turn_up_to_the_pause_and_nothing_after_it(silero: SileroModel) -> None:
    samples = recording("question-10").samples(RATE)
    ear = hearing(silero, SEMANTIC)
    events = ear.push(samples[: 2 * RATE], RATE)
    while not isinstance(events[-1], Question):
        events += ear.push(np.zeros(RATE // 50, np.float32), RATE)
    question = events[-1]
    [began] = [event for event in events if isinstance(event, TurnBegan)]
    at = began.begin + len(question.samples)
    stream = resampled(np.concatenate([samples[: 2 * RATE], np.zeros(RATE, np.float32)]))
    assert np.array_equal(question.samples, stream[began.begin : at])
    assert ear.push(np.zeros(RATE // 5, np.float32), RATE) == []
    assert ear.congested
    [stopped, *_] = ear.decide(question.number, True)
    assert isinstance(stopped, Stopped)
    assert (stopped.at, stopped.cause) == (at, "complete")
    assert ear.decide(question.number, True) == []


def test_a_question_is_about_the_last_eight_seconds(silero: SileroModel) -> None:
    each = recording("human-01").samples(RATE)
    asked: list[Question] = []
    ear = hearing(silero, SEMANTIC)
    pushed(ear, np.concatenate([each[: 5 * RATE], each]), lambda question: asked.append(question) or False)
    assert max(len(question.samples) for question in asked) == 8 * 16000


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 9 * RATE), min_size=60, max_size=80), verdicts=st.lists(st.booleans(), min_size=9))
def test_however_the_sound_is_cut_the_same_questions_and_turns_come_out(
    silero: SileroModel, cuts: list[int], verdicts: list[bool]
) -> None:
    samples = np.concatenate([recording("question-10").samples(RATE), recording("question-11").samples(RATE)])
    samples = np.concatenate([samples, np.zeros(5 * RATE, np.float32)])

    def complete(question: Question) -> bool:
        return verdicts[question.number % len(verdicts)]

    def run(borders: list[int]) -> list[object]:
        events = joined(pushed(hearing(silero, SEMANTIC), samples, complete, borders))
        return [event.samples.tobytes() if isinstance(event, Question) else event for event in events]

    regular = list(range(0, len(samples), 4000))
    assert run([*regular, *(min(cut, len(samples)) for cut in cuts)]) == run(regular)


def test_sound_that_stops_while_a_question_is_open_ends_the_turn_where_it_paused(silero: SileroModel) -> None:
    ear = hearing(silero, SEMANTIC)
    events = ear.push(recording("question-10").samples(RATE)[: 2 * RATE], RATE)
    while not isinstance(events[-1], Question):
        events += ear.push(np.zeros(RATE // 50, np.float32), RATE)
    events += ear.push(np.zeros(RATE // 10, np.float32), RATE)
    events += ear.starve()
    [began] = [event for event in events if isinstance(event, TurnBegan)]
    [paused] = [event for event in events if isinstance(event, Paused)]
    assert events[-1] == Stopped(paused.quiet_from, ear.position, "starved")
    assert began.begin + len(heard(events)) == paused.at


def test_a_change_to_silence_alone_withdraws_the_question(silero: SileroModel) -> None:
    ear = hearing(silero, SEMANTIC)
    events = ear.push(recording("question-10").samples(RATE)[: 2 * RATE], RATE)
    while not isinstance(events[-1], Question):
        events += ear.push(np.zeros(RATE // 50, np.float32), RATE)
    ear.configure(ServerVad(silence_duration_ms=800))
    assert ear.decide(events[-1].number, True) == []
    [stopped] = [event for event in ear.push(np.zeros(2 * RATE, np.float32), RATE) if isinstance(event, Stopped)]
    assert stopped.cause == "silence"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SessionOptions(), ServerVad()),
        (SessionOptions(silence_duration_ms=700, idle_timeout_ms=9000),
         ServerVad(silence_duration_ms=700, idle_timeout_ms=9000)),
        (SessionOptions(turn_detection="semantic_vad", eagerness="high"), SemanticVad(eagerness="high")),
    ],
)  # fmt: skip
def test_sessions_begin_as_the_operator_has_set(options: SessionOptions, expected: TurnDetection) -> None:
    assert options.initial_session("model", "voice").audio.input.turn_detection == expected
