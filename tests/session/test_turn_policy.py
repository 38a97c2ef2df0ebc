"""Who has the floor, in whole sessions: judged turns, interruptions, protected answers, echoes and long silences."""

from __future__ import annotations

import asyncio
import itertools
import logging

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.judge import InlineJudge
from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples, decode_pcm16, encode_pcm16
from voice_omni.audio.resample import StreamResampler
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

STORY = "Once upon a time there was a cat who lived by the sea and who was not afraid of any dog or of the rain."


def question(name: str = "question-10") -> Samples:
    """A short question with 0.2 s of quiet before and after it."""
    each = recording(name)
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


def semantic(eagerness: str = "auto") -> dict[str, object]:
    return {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}}}


def spoken(*transcripts: str, answer: str = STORY) -> ScriptedClient:
    """The first turn is understood as the first of ``transcripts``, and so on; the last holds for all others.

    Replies to one utterance are one turn's, however often they are begun anew.
    """

    def script(request: GenerateRequest, _: int) -> Script:
        turn = int(request.utterance_id.removeprefix("utt_")) if request.utterance_id is not None else 1
        text = transcripts[min(turn, len(transcripts)) - 1]
        return Script(transcript=text, silent=not text, answer=answer, word_seconds=0.5)

    return ScriptedClient(script)


async def asked(talk: Talk) -> None:
    """Ask a question, and listen to the first second of the answer."""
    await talk.say(question(), quiet(0.6))
    await talk.until("response.output_audio.delta")
    await talk.say(quiet(1.0))


# The end of a turn


@in_virtual_time
async def test_a_turn_that_sounds_complete_ends_at_a_short_pause(silero: SileroModel) -> None:
    judge = InlineJudge(lambda _: 0.9, seconds=0.05)
    async with Talk(ScriptedClient(), silero, judge=judge) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")
        [asked] = judge.asked
        stopped = talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
        started = talk.all("input_audio_buffer.speech_started")[0]["audio_start_ms"]
        assert len(asked) == (stopped - started) * 16
        assert talk.time_of("input_audio_buffer.speech_stopped") - stopped / 1000 == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize(("eagerness", "seconds"), [("low", 8), ("medium", 4), ("auto", 4), ("high", 2)])
def test_a_turn_that_does_not_is_waited_for(silero: SileroModel, eagerness: str, seconds: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with Talk(ScriptedClient(), silero, judge=InlineJudge(lambda _: 0.1)) as talk:
            await talk.send("session.update", session=semantic(eagerness))
            sound = question()
            await talk.say(sound, quiet(seconds + 1.0))
            stopped = talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
            assert 0 <= stopped / 1000 - (len(sound) / RATE - 0.2 + seconds) < 0.15

    scenario()


@in_virtual_time
async def test_a_pause_in_an_unfinished_sentence_is_not_answered(silero: SileroModel) -> None:
    judge = InlineJudge(lambda sound: 0.9 if len(sound) > 3 * 16000 else 0.1)
    client = ScriptedClient()
    async with Talk(client, silero, judge=judge) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question("question-11"), quiet(1.5), question(), quiet(1.0))
        await talk.until("response.done")
        counts = talk.counts()
        assert counts["input_audio_buffer.committed"] == counts["response.created"] == 1
        assert len(judge.asked) > 2


@in_virtual_time
async def test_a_judge_that_does_not_answer_leaves_it_to_silence(silero: SileroModel) -> None:
    judge = InlineJudge(lambda _: 0.9, seconds=30)
    async with Talk(ScriptedClient(), silero, SessionOptions(semantic_timeout_ms=400), judge=judge) as talk:
        await talk.send("session.update", session=semantic())
        sound = question()
        await talk.say(sound, quiet(1.5))
        await talk.until("response.done")
        stopped = talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"] / 1000
        assert 0.25 < stopped - len(sound) / RATE < 0.5
        assert talk.counters.unjudged == 1


@in_virtual_time
async def test_a_judge_that_fails_is_told_of_and_leaves_it_to_silence(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Samples) -> float:
        raise ZeroDivisionError

    class Broken(InlineJudge):
        def ask(self, samples: Samples) -> asyncio.Future[float]:
            future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            future.set_exception(ZeroDivisionError())
            return future

    async with Talk(ScriptedClient(), silero, judge=Broken(broken)) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")
    assert "the end-of-turn model failed" in caplog.text


@in_virtual_time
async def test_a_recording_that_is_sent_at_once_is_heard_like_a_person(silero: SileroModel) -> None:
    """The judgements take as long as they take; what comes after each pause waits for them."""

    async def turns(*, at_once: bool) -> list[tuple[int, int]]:
        judge = InlineJudge(lambda sound: 0.9 if len(sound) > 30_000 else 0.1, seconds=0.3)
        async with Talk(ScriptedClient(Script(silent=True)), silero, judge=judge) as talk:
            await talk.send("session.update", session=semantic())
            sound = np.concatenate(
                [question(), quiet(1.0), question("question-11"), quiet(2.0), question(), quiet(2.0)]
            )
            await (talk.append(sound) if at_once else talk.say(sound))
            await asyncio.sleep(1)
            started = [event["audio_start_ms"] for event in talk.all("input_audio_buffer.speech_started")]
            stopped = [event["audio_end_ms"] for event in talk.all("input_audio_buffer.speech_stopped")]
            return list(zip(started, stopped, strict=True))

    paced = await turns(at_once=False)
    assert len(paced) >= 2
    assert await turns(at_once=True) == paced


@in_virtual_time
async def test_leaving_while_a_judgement_is_under_way(silero: SileroModel) -> None:
    options = SessionOptions(semantic_timeout_ms=20_000)
    async with Talk(ScriptedClient(), silero, options, judge=InlineJudge(lambda _: 0.9, seconds=5)) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question(), quiet(0.1))
    await asyncio.sleep(10)
    assert "input_audio_buffer.speech_stopped" not in talk.counts()


# Input while the previous turn is being decided


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("speak"), st.sampled_from(["question-10", "question-11", "human-13"])),
        st.tuples(st.just("quiet"), st.floats(0.1, 1.4)),
        st.tuples(st.just("hold"), st.none()),
        st.tuples(st.just("tell"), st.none()),
    ),
    min_size=3,
    max_size=9,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps, chunk=st.sampled_from([480, 1234, 12_000]), judged=st.booleans())
def test_every_sample_of_speech_is_in_one_turn_and_in_the_right_one(
    silero: SileroModel, steps: list[tuple[str, str | float | None]], chunk: int, judged: bool
) -> None:
    """However long it takes to know what was said, and whoever goes on meanwhile."""

    @in_virtual_time
    async def scenario() -> None:
        client = ScriptedClient(Script(answer="Yes.", word_seconds=0.2))
        client.hold_transcripts = asyncio.Event()
        client.hold_transcripts.set()
        stream: list[Samples] = [quiet(0.5)]
        async with Talk(client, silero, judge=InlineJudge(lambda sound: len(sound) % 1024 / 1024)) as talk:
            if judged:
                await talk.send("session.update", session=semantic())
            await talk.say(stream[0])
            speech: list[tuple[float, float]] = []
            for name, value in [*steps, ("tell", None), ("quiet", 5.0)]:
                match name, value:
                    case "speak", str(recorded):
                        position = sum(map(len, stream)) / RATE
                        sound = question(recorded)
                        speech.append((position + 0.3, position + len(sound) / RATE - 0.3))
                        stream.append(sound)
                        await talk.say(sound, chunk=chunk)
                    case "quiet", float(seconds):
                        stream.append(quiet(seconds))
                        await talk.say(stream[-1], chunk=chunk)
                    case "hold", _:
                        client.hold_transcripts.clear()
                    case "tell", _:
                        client.hold_transcripts.set()
            await asyncio.sleep(5)
        resampler = StreamResampler(RATE, 16000)
        sent = decode_pcm16(encode_pcm16(np.concatenate(stream)))
        whole = np.concatenate([resampler.push(sent), resampler.flush()])
        stretches: dict[str, list[tuple[int, int]]] = {}
        begin = 0
        for event in talk.events:
            if event["type"] == "input_audio_buffer.speech_started":
                begin = event["audio_start_ms"] * 16
            elif event["type"] == "input_audio_buffer.speech_stopped":
                stretches.setdefault(event["item_id"], []).append((begin, event["audio_end_ms"] * 16))
        committed = [event["item_id"] for event in talk.all("input_audio_buffer.committed")]
        assert committed == list(stretches)
        # Each turn was heard as its own stretches of the stream, by the last reply that was opened on it: all of it but
        # the silence that it took to decide.
        heard = {reply.request.utterance_id: reply.sound for reply in client.replies if reply.request.utterance_id}
        assert len(heard) == len(committed)
        for sound, own in zip(heard.values(), stretches.values(), strict=True):
            expected = np.concatenate([whole[start:end] for start, end in own])
            assert np.array_equal(sound, expected[: len(sound)])
            assert not np.abs(expected[len(sound) :]).max(initial=0.0) > 0.01
        flat = [stretch for own in stretches.values() for stretch in own]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(flat))
        for start, end in speech:
            assert sum(first / 16000 <= start and end <= last / 16000 for first, last in flat) == 1

    scenario()


@in_virtual_time
async def test_an_answer_that_noise_ended_before_it_was_heard_is_given_after_all(silero: SileroModel) -> None:
    gate = asyncio.Event()

    def script(request: GenerateRequest, number: int) -> Script:
        return Script(silent=request.utterance_id == "utt_2", gate=gate if number == 0 else None)

    client = ScriptedClient(script)
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.4))
        await talk.until("response.created")
        await talk.say(question("question-11")[: RATE // 2], quiet(1.0))
        done = await talk.until("response.done", 2)
        first, second = (event["response"] for event in talk.all("response.done"))
        assert first["status_details"]["reason"] == "turn_detected"
        assert (second["status"], len(second["output"])) == ("completed", 1)
        assert done["response"]["output"][0]["content"][0]["transcript"] == "The capital of France is Paris."
        assert client.replies[-1].request.messages == (Message("user", "what is the capital of France"),)
        assert talk.counts()["input_audio_buffer.committed"] == 1
        assert talk.counters.false_interruptions == 1


@in_virtual_time
async def test_an_answer_of_which_something_was_heard_is_not_given_again(silero: SileroModel) -> None:
    client = spoken("what is it", "")
    async with Talk(client, silero) as talk:
        await asked(talk)
        await talk.say(question("question-11"), quiet(5.0))
        assert [event["response"]["status"] for event in talk.all("response.done")] == ["cancelled"]


# Interruptions


@pytest.mark.parametrize(
    ("options", "words", "interrupts"),
    [
        (SessionOptions(interrupt_min_ms=500), "anything", True),
        (SessionOptions(interrupt_min_ms=4000), "anything", False),
        (SessionOptions(interrupt_min_words=2, interrupt_certain_ms=9000), "stop", False),
        (SessionOptions(interrupt_min_words=2, interrupt_certain_ms=9000), "stop it", True),
        (SessionOptions(ignore_backchannels=True), "mm-hm, yeah", False),
        (SessionOptions(ignore_backchannels=True), "yeah, but why", True),
        (SessionOptions(ignore_backchannels=True), "", False),
    ],
)
def test_only_what_means_to_interrupt_does_and_clients_hear_of_nothing_else(
    silero: SileroModel, options: SessionOptions, words: str, interrupts: bool
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        client = spoken("what is it", words)
        async with Talk(client, silero, options) as talk:
            await asked(talk)
            before = len(talk.events)
            await talk.say(question("question-11")[: int(1.2 * RATE)], quiet(2.0))
            kinds = {event["type"] for event in talk.events[before:] if event["type"].startswith(("input", "error"))}
            await talk.until("response.done")
            status = talk.all("response.done")[0]["response"]["status"]
            if interrupts:
                assert status == "cancelled"
                assert {"input_audio_buffer.speech_started", "input_audio_buffer.committed"} <= kinds
                assert client.replies[-1].request.messages[-1].content in STORY
            else:
                assert (status, kinds) == ("completed", set())
                await asyncio.sleep(12)
                assert len(talk.sound()) / RATE == pytest.approx(0.5 * len(STORY.split()), abs=0.01)
                assert client.alive == []
                assert talk.counters.false_interruptions == 1

    scenario()


@in_virtual_time
async def test_nothing_is_sent_while_an_interruption_is_open_and_the_answer_resumes_without_a_gap(
    silero: SileroModel,
) -> None:
    client = spoken("what is it", "mm-hm")
    client.hold_transcripts = asyncio.Event()
    client.hold_transcripts.set()
    options = SessionOptions(ignore_backchannels=True, max_lead_ms=300, resume_ms=1000)
    async with Talk(client, silero, options) as talk:
        await asked(talk)
        client.hold_transcripts.clear()
        onset = talk.clock() + 0.6
        await talk.say(question("question-11")[: int(1.0 * RATE)], quiet(3.0))
        sent = [t for e, t in zip(talk.events, talk.times, strict=True) if e["type"] == "response.output_audio.delta"]
        gap = [after - before for before, after in itertools.pairwise(sent) if after > onset and after < onset + 4]
        assert 1.5 < max(gap) < 3.0  # the speech, the silence after it and ``resume_ms``
        done = await talk.until("response.done")
        assert done["response"]["status"] == "completed"
        assert len(talk.sound()) / RATE == pytest.approx(0.5 * len(STORY.split()), abs=0.01)


@in_virtual_time
async def test_a_backchannel_that_outlasts_the_answer_is_a_turn(silero: SileroModel) -> None:
    client = spoken("what is it", "yeah", answer="Is it so?")
    async with Talk(client, silero, SessionOptions(ignore_backchannels=True)) as talk:
        await talk.say(question(), quiet(0.6))
        await talk.until("response.output_audio.delta")
        await talk.say(quiet(0.4), question("question-11"), quiet(1.5))
        assert talk.counts()["input_audio_buffer.committed"] == 2
        assert client.replies[-1].request.messages[-1] == Message("assistant", "Is it so?")


@in_virtual_time
async def test_speech_goes_on_after_a_pause_in_an_open_interruption(silero: SileroModel) -> None:
    client = spoken("what is it", "mm-hm")
    client.hold_transcripts = asyncio.Event()
    client.hold_transcripts.set()
    async with Talk(client, silero, SessionOptions(ignore_backchannels=True, interrupt_certain_ms=1000)) as talk:
        await asked(talk)
        client.hold_transcripts.clear()
        await talk.say(question("question-11")[: int(0.8 * RATE)], quiet(0.8), question(), quiet(0.2))
        [started] = [event["audio_start_ms"] for event in talk.all("input_audio_buffer.speech_started")[1:]]
        client.hold_transcripts.set()
        await talk.say(quiet(1.0))
        assert talk.counts()["input_audio_buffer.committed"] == 2
        [stopped] = [event["audio_end_ms"] for event in talk.all("input_audio_buffer.speech_stopped")[1:]]
        assert len(client.replies[-1].sound) / 16 > stopped - started - 1000


# Answers that are not interrupted


@pytest.mark.parametrize(("kept", "turns"), [("discard", 0), ("keep", 1)])
def test_an_answer_can_be_protected(silero: SileroModel, kept: str, turns: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        client = spoken("anything else")
        async with Talk(client, silero, SessionOptions(protected_speech=kept)) as talk:  # type: ignore[arg-type]
            await talk.send("response.create", response={"interruptible": False, "instructions": "Greet."})
            await talk.until("response.output_audio.delta")
            await talk.say(quiet(1.0), question(), quiet(1.0))
            assert talk.counts()["input_audio_buffer.committed"] == turns
            done = await talk.until("response.done")
            assert done["response"]["status"] == "completed"
            await asyncio.sleep(15)
            assert talk.counts()["response.created"] == 1 + turns
            await talk.say(question(), quiet(1.0))
            assert talk.counts()["input_audio_buffer.committed"] == 1 + turns

    scenario()


@in_virtual_time
async def test_who_still_speaks_when_a_protected_answer_has_been_played_is_heard_from_the_beginning(
    silero: SileroModel,
) -> None:
    client = spoken("anything else", answer="Hello there.")
    async with Talk(client, silero) as talk:
        await talk.send("response.create", response={"interruptible": False})
        await talk.until("response.output_audio.delta")
        sound = recording("human-09").samples(RATE)
        await talk.say(sound, quiet(1.0))
        [started] = talk.all("input_audio_buffer.speech_started")
        assert started["audio_start_ms"] < 600
        assert talk.time_of("input_audio_buffer.speech_started") > 0.9
        assert talk.counts()["input_audio_buffer.committed"] == 1


@in_virtual_time
async def test_while_echo_cancellation_warms_up_nothing_interrupts(silero: SileroModel) -> None:
    client = spoken("one")
    async with Talk(client, silero, SessionOptions(echo_warm_up_ms=4000)) as talk:
        await asked(talk)
        await talk.say(question("question-11"), quiet(1.2))
        assert talk.counts()["input_audio_buffer.speech_started"] == 1
        await talk.say(question("question-11"), quiet(1.0))
        assert talk.counts()["input_audio_buffer.speech_started"] == 2
        assert talk.all("response.done")[0]["response"]["status"] == "cancelled"


# Echo


def delayed(sound: Samples, decibels: float) -> Samples:
    return np.concatenate([quiet(0.3), sound * np.float32(10 ** (decibels / 20))])


@in_virtual_time
async def test_an_answer_that_is_heard_back_is_never_answered_and_only_interrupted_once(silero: SileroModel) -> None:
    """The microphone hears the loudspeaker at -20 dB, 300 ms late; what is recognised is what was being said."""
    client = spoken("what is it", "a time there was", "and then", "upon a time there")
    echo = delayed(recording("human-09").samples(RATE)[RATE // 2 : 2 * RATE], -20)
    async with Talk(client, silero) as talk:
        await asked(talk)
        await talk.say(echo, quiet(1.5))
        assert talk.all("response.done")[0]["response"]["status"] == "cancelled"
        await talk.say(question(), quiet(1.0), echo, quiet(1.5))
        done = await talk.until("response.done", 2)
        assert done["response"]["status"] == "completed"
        assert talk.counts()["input_audio_buffer.committed"] == talk.counts()["response.created"] == 2
        assert talk.counters.echoes == 2


@in_virtual_time
async def test_where_answers_echo_a_person_still_interrupts_with_words_of_their_own(silero: SileroModel) -> None:
    client = spoken("what is it", "a time there was", "and then", "stop please")
    echo = delayed(recording("human-09").samples(RATE)[RATE // 2 : 2 * RATE], -20)
    async with Talk(client, silero) as talk:
        await asked(talk)
        await talk.say(echo, quiet(1.5), question(), quiet(1.0), question("question-11"), quiet(1.5))
        statuses = [event["response"]["status"] for event in talk.all("response.done")]
        assert statuses == ["cancelled", "cancelled"]
        assert talk.counts()["input_audio_buffer.committed"] == 3


# Nobody speaks


def with_timeout(timeout_ms: int = 5000) -> dict[str, object]:
    return {"audio": {"input": {"turn_detection": {"idle_timeout_ms": timeout_ms}}}}


@in_virtual_time
async def test_silence_after_an_answer_makes_the_server_speak_again(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="One two three.", word_seconds=0.5))
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=with_timeout())
        await talk.say(question(), quiet(0.6))
        await talk.until("response.done")
        played = talk.time_of("response.output_audio.delta") + 1.5
        await talk.say(quiet(8.0))
        [triggered] = talk.all("input_audio_buffer.timeout_triggered")
        assert talk.time_of("input_audio_buffer.timeout_triggered") == pytest.approx(played + 5.0, abs=0.05)
        assert triggered["audio_end_ms"] - triggered["audio_start_ms"] == 5000
        assert [kind for kind in talk.kinds() if kind.startswith("input_audio_buffer.")][-2:] == [
            "input_audio_buffer.timeout_triggered",
            "input_audio_buffer.committed",
        ]
        assert talk.all("input_audio_buffer.committed")[-1]["item_id"] == triggered["item_id"]
        assert talk.counts()["response.created"] == 2
        assert client.replies[-1].request.messages[-2:] == (
            Message("assistant", "One two three."),
            Message("user", "..."),
        )


@in_virtual_time
async def test_it_does_so_only_so_often_and_again_once_somebody_has_spoken(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero, SessionOptions(max_idle_responses=2)) as talk:
        await talk.send("session.update", session=with_timeout())
        for turns in (1, 2):
            await talk.say(question(), quiet(0.6))
            await asyncio.sleep(60)
            assert talk.counts()["input_audio_buffer.timeout_triggered"] == 2 * turns


@in_virtual_time
async def test_speaking_in_time_or_asking_for_an_answer_puts_it_off(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.send("session.update", session=with_timeout())
        for count in range(1, 4):
            await talk.say(question(), quiet(1.0))
            await talk.until("response.done", 2 * count - 1)
            await talk.say(quiet(4.5))
            await talk.send("response.create")
            await talk.until("response.done", 2 * count)
            await talk.say(quiet(4.5))
        assert "input_audio_buffer.timeout_triggered" not in talk.counts()


@in_virtual_time
async def test_without_an_answer_there_is_nothing_to_follow_up(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.send("session.update", session=with_timeout())
        await asyncio.sleep(60)
        assert "input_audio_buffer.timeout_triggered" not in talk.counts()


# A microphone that dies


@in_virtual_time
async def test_a_dead_microphone_is_told_of_once_and_so_is_its_recovery(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.say(question()[: int(1.2 * RATE)])
        await asyncio.sleep(5)
        assert talk.counts()["input_audio_buffer.speech_stopped"] == 1
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        await talk.say(quiet(1.0))
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert "after 5." in caplog.records[-1].getMessage()
        assert (talk.counters.stalls, talk.counters.recoveries) == (1, 1)


@in_virtual_time
async def test_a_microphone_that_is_off_from_the_start_is_nothing_to_tell(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        await asyncio.sleep(600)
        assert talk.kinds("session", "conversation") == []
    assert caplog.text == ""


@in_virtual_time
async def test_speech_in_steady_noise_ends(silero: SileroModel) -> None:
    sound = np.concatenate([question(), quiet(2.0)])
    noise = 0.06 * 10 ** (-35 / 20) * np.cumsum(np.random.default_rng(1).standard_normal(len(sound))).astype(np.float32)
    noise -= np.convolve(noise, np.ones(500, np.float32) / 500, "same")
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.say(sound + noise / noise.std() * np.float32(0.06 * 10 ** (-35 / 20)))
        await talk.until("response.done")
