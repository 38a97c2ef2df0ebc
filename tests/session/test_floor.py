"""Whole sessions: speech over an answer, protected answers, and echoes."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

from tests.support.conversations import STORY, asked, question, spoken
from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import Message
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

# Barge-in


@in_virtual_time
async def test_speech_over_the_answer_stops_it_at_once_and_history_holds_what_was_heard(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY, word_seconds=0.3))
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.6))
        await talk.until("response.output_audio.delta")
        began = talk.time_of("response.output_audio.delta")
        await talk.say(quiet(1.0), question("question-11"), quiet(1.0))
        await talk.until("response.done", 2)
        onset = talk.time_of("input_audio_buffer.speech_started", 2)
        assert talk.time_of("response.done") == onset
        first, second = (event["response"] for event in talk.all("response.done"))
        assert (first["status"], first["status_details"]["reason"]) == ("cancelled", "turn_detected")
        assert first["output"][0]["status"] == "incomplete"
        stale = [
            event
            for event, time in zip(talk.events, talk.times, strict=True)
            if event["type"].endswith(".delta") and event.get("response_id") == first["id"] and time > onset
        ]
        assert stale == []
        words = int((onset - began) / 0.3 + 1e-6)
        heard = client.replies[-1].request.messages[-1]
        assert heard.role == "assistant"
        assert words <= len(heard.content.split()) <= words + 1
        assert STORY.startswith(heard.content)
        assert second["id"] != first["id"]


@in_virtual_time
async def test_speech_after_the_response_is_done_still_cuts_what_is_playing(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="One two three four five six.", word_seconds=0.5))
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.6))
        done = await talk.until("response.done")
        assert done["response"]["status"] == "completed"
        await talk.say(question("question-11"), quiet(1.0))
        heard = client.replies[-1].request.messages[-1].content
        assert "One two three four five six.".startswith(heard)
        assert heard != "One two three four five six."
        item_id = done["response"]["output"][0]["id"]
        await talk.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=500)
        assert (await talk.until("conversation.item.truncated"))["item_id"] == item_id
        assert "error" not in talk.counts()


@in_virtual_time
async def test_speech_when_nothing_plays_interrupts_nothing(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")
        await asyncio.sleep(5)
        before = len(talk.events)
        await talk.say(question("question-11")[: int(0.8 * RATE)])
        kinds = [event["type"] for event in talk.events[before:]]
        assert kinds == ["input_audio_buffer.speech_started"]
        assert client.replies[-1].request.messages[-1].content == "The capital of France is Paris."


@in_virtual_time
async def test_two_interruptions_leave_one_response_alive_and_no_mixture(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY))
    async with Talk(client, silero) as talk:
        for _ in range(3):
            await talk.say(question("question-11"), quiet(0.7))
        await asyncio.sleep(10)
        done = [event["response"]["status"] for event in talk.all("response.done")]
        assert done == ["cancelled", "cancelled", "completed"]
        order = [event["response_id"] for event in talk.events if event["type"].endswith("audio.delta")]
        assert order == sorted(order, key=lambda each: int(each.split("_")[1]))
        assert client.alive == []


@in_virtual_time
async def test_what_waits_for_a_slow_client_is_not_sent_after_an_interruption(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY))
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.6))
        await talk.until("response.output_audio.delta")
        talk.reading.clear()
        await asyncio.sleep(2)
        await talk.send("response.cancel")
        before = len(talk.events)
        talk.reading.set()
        await talk.until("response.done")
        kinds = [event["type"] for event in talk.events[before:]]
        assert kinds == [
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]


@in_virtual_time
async def test_without_interruption_the_answer_goes_on_and_the_next_follows_it(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY))
    async with Talk(client, silero) as talk:
        patch = {"audio": {"input": {"turn_detection": {"interrupt_response": False}}}}
        await talk.send("session.update", session=patch)
        await talk.say(question(), quiet(0.7), question("question-11"), quiet(0.7))
        await talk.until("response.done", 2)
        assert [event["response"]["status"] for event in talk.all("response.done")] == ["completed"] * 2
        assert talk.counts()["response.created"] == 2
        assert client.replies[-1].request.messages[-1] == Message("assistant", STORY)


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
