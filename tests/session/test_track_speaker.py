"""Answers whose sound the transport plays out: where it goes, when, and what is known of what was heard."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.support.scripted import OUTPUT_RATE, Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.track import FRAME, Track
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

STORY = "Once upon a time there was a cat who lived by the sea and who was not afraid of any dog or of the rain."
WORDS = STORY.split()
WORD_S = 0.5


def story() -> ScriptedClient:
    return ScriptedClient(Script(answer=STORY, word_seconds=WORD_S))


def question() -> Samples:
    each = recording("question-10")
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


def whole_answer(words: int, seconds: float) -> Samples:
    """The scripted sound of so many words, as a track plays it."""
    resampler = StreamResampler(OUTPUT_RATE, RATE)
    clock = np.arange(words * int(seconds * OUTPUT_RATE)) / OUTPUT_RATE
    return np.concatenate(
        [resampler.push((0.3 * np.sin(2 * np.pi * 440 * clock)).astype(np.float32)), resampler.flush()]
    )


async def hear(talk: Talk, *sounds: Samples) -> None:
    """Let the session hear sounds on its track in real time, 20 ms at a time."""
    samples = np.concatenate(sounds)
    for start in range(0, len(samples), FRAME):
        await talk.session.listen(samples[start : start + FRAME], RATE)
        await asyncio.sleep(FRAME / RATE)


def playback(talk: Talk) -> list[tuple[str, str]]:
    """What was told of the playback: ``("started", "resp_1")``, ..."""
    prefix = "output_audio_buffer."
    return [
        (event["type"].removeprefix(prefix), event["response_id"])
        for event in talk.events
        if event["type"].startswith(prefix)
    ]


async def ask(talk: Talk, **response: Any) -> None:
    await talk.send("response.create", **({"response": response} if response else {}))


@in_virtual_time
async def test_speech_is_heard_and_answered_on_the_track_alone(silero: SileroModel) -> None:
    track = Track()
    async with Talk(ScriptedClient(Script(answer="One two.", word_seconds=0.3)), silero, sink=track) as talk:
        await hear(talk, question(), quiet(1.0))
        await talk.until("output_audio_buffer.stopped")
        kinds = talk.kinds("conversation")
        assert kinds[-12:] == [
            "input_audio_buffer.committed",
            "response.created",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_audio_transcript.delta",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.done",
            "output_audio_buffer.started",
            "output_audio_buffer.stopped",
        ]
        np.testing.assert_array_equal(track.heard, whole_answer(2, 0.3))


@in_virtual_time
async def test_playback_starts_with_the_first_frame_and_stops_with_the_last(silero: SileroModel) -> None:
    track = Track()
    async with Talk(story(), silero, sink=track) as talk:
        await ask(talk)
        await talk.until("output_audio_buffer.stopped")
        assert talk.time_of("output_audio_buffer.started") == track.frames[0][0]
        assert talk.time_of("output_audio_buffer.stopped") == track.frames[-1][0]
        assert playback(talk) == [("started", "resp_1"), ("stopped", "resp_1")]


@in_virtual_time
async def test_the_track_is_given_little_and_the_pipeline_waits_for_the_listener(silero: SileroModel) -> None:
    options = SessionOptions(max_lead_ms=1000, track_lead_ms=200, delta_ms=100)
    track, client = Track(), story()
    async with Talk(client, silero, options, sink=track) as talk:
        await ask(talk)
        await asyncio.sleep(3.0)
        assert track.most_queued <= 0.3 * RATE
        # Each word is a piece of text and one of sound; ahead of the playback may be 1 s, and the word being cut up.
        assert client.replies[0].taken <= 2 * (3.0 + 1.0 + WORD_S) / WORD_S
        await talk.until("output_audio_buffer.stopped")
        np.testing.assert_array_equal(track.heard, whole_answer(len(WORDS), WORD_S))


@in_virtual_time
async def test_speech_over_an_answer_stops_it_within_a_frame_and_cuts_it_where_it_was_heard(
    silero: SileroModel,
) -> None:
    track = Track()
    async with Talk(story(), silero, sink=track) as talk:
        await ask(talk)
        await talk.until("output_audio_buffer.started")
        await hear(talk, quiet(2.0), question())
        cleared = await talk.until("output_audio_buffer.cleared")
        truncated = await talk.until("conversation.item.truncated")
        at = track.flushes[0]
        assert talk.time_of("input_audio_buffer.speech_started") == at == talk.time_of("output_audio_buffer.cleared")
        answered = [time for time, _ in track.frames if time > at and time < at + 1.0]
        assert not answered
        heard_ms = sum(len(samples) for time, samples in track.frames if time <= at) * 1000 / RATE
        assert cleared["response_id"] == "resp_1"
        assert truncated["audio_end_ms"] == pytest.approx(heard_ms, abs=25)
        kinds = talk.kinds()
        order = ["input_audio_buffer.speech_started", "response.done", "output_audio_buffer.cleared",
                 "conversation.item.truncated"]  # fmt: skip
        positions = [kinds.index(kind) for kind in order]
        assert positions == sorted(positions)
        [said] = [each for each in talk.core.conversation.messages() if each.role == "assistant"]
        assert said.content == " ".join(WORDS[: int(heard_ms / 1000 / WORD_S)])
        await talk.send("conversation.item.retrieve", item_id=truncated["item_id"])
        shown = await talk.until("conversation.item.retrieved")
        assert shown["item"]["content"][0]["transcript"] == said.content
        assert ("stopped", "resp_1") not in playback(talk)


@in_virtual_time
async def test_an_answer_that_is_complete_and_still_being_played_is_cut_too(silero: SileroModel) -> None:
    track = Track()
    client = ScriptedClient(Script(answer="One two three four five six", word_seconds=WORD_S))
    async with Talk(client, silero, sink=track) as talk:
        await ask(talk)
        await talk.until("response.done")
        assert not talk.all("output_audio_buffer.stopped")
        await hear(talk, question())
        truncated = await talk.until("conversation.item.truncated")
        assert 0 < truncated["audio_end_ms"] < 3000
        assert playback(talk)[:2] == [("started", "resp_1"), ("cleared", "resp_1")]


@in_virtual_time
async def test_a_held_answer_goes_on_with_the_sample_at_which_it_stopped(silero: SileroModel) -> None:
    options = SessionOptions(interrupt_min_words=3, resume_ms=500)
    scripts = iter([Script(answer=STORY, word_seconds=WORD_S)])
    client = ScriptedClient(lambda request, _: next(scripts, Script(silent=True)))
    track = Track()
    async with Talk(client, silero, options, sink=track) as talk:
        await ask(talk)
        await talk.until("output_audio_buffer.started")
        await hear(talk, quiet(1.0), question(), quiet(1.5))
        await talk.until("output_audio_buffer.stopped")
        times = np.array([time for time, _ in track.frames])
        assert np.diff(times).max() > 0.5, "it was not held"
        np.testing.assert_array_equal(track.heard, whole_answer(len(WORDS), WORD_S))
        assert playback(talk) == [("started", "resp_1"), ("stopped", "resp_1")]
        assert not talk.all("conversation.item.truncated")


@in_virtual_time
async def test_a_client_can_clear_what_is_being_played(silero: SileroModel) -> None:
    track = Track()
    async with Talk(story(), silero, sink=track) as talk:
        await ask(talk)
        await talk.until("output_audio_buffer.started")
        await asyncio.sleep(1.0)
        await talk.send("output_audio_buffer.clear")
        at = track.flushes[-1]
        done = await talk.until("response.done")
        truncated = await talk.until("conversation.item.truncated")
        assert done["response"]["status"] == "completed"
        assert 900 < truncated["audio_end_ms"] <= 1100
        assert playback(talk) == [("started", "resp_1"), ("cleared", "resp_1")]
        assert track.frames[-1][0] <= at
        await ask(talk)
        await talk.until("output_audio_buffer.stopped", response_id="resp_2")


@in_virtual_time
async def test_a_cancelled_answer_is_silent_at_once(silero: SileroModel) -> None:
    track = Track()
    async with Talk(story(), silero, sink=track) as talk:
        await ask(talk)
        await talk.until("output_audio_buffer.started")
        await talk.send("response.cancel")
        done = await talk.until("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        await talk.until("output_audio_buffer.cleared")
        assert track.frames[-1][0] <= track.flushes[-1]
        await talk.send("output_audio_buffer.clear")  # what clients do next; there is nothing left to clear
        assert playback(talk) == [("started", "resp_1"), ("cleared", "resp_1")]


@in_virtual_time
async def test_answers_are_spoken_one_after_the_other(silero: SileroModel) -> None:
    """Those beside the conversation too: there is only one track."""
    track = Track()
    async with Talk(ScriptedClient(Script(answer="One two three", word_seconds=WORD_S)), silero, sink=track) as talk:
        await ask(talk, conversation="none")
        await ask(talk)
        await talk.until("output_audio_buffer.stopped", 2)
        told = playback(talk)
        assert sorted(told[::2]) == [("started", "resp_1"), ("started", "resp_2")]
        assert [("stopped", response_id) for _, response_id in told[::2]] == told[1::2]
        one = whole_answer(3, WORD_S)
        np.testing.assert_array_equal(track.heard, np.concatenate([one, one]))


@in_virtual_time
async def test_speech_silences_an_answer_beside_the_conversation_for_good(silero: SileroModel) -> None:
    track = Track()
    client = ScriptedClient(
        lambda request, number: Script(answer=STORY, word_seconds=WORD_S) if not number else Script()
    )
    async with Talk(client, silero, sink=track) as talk:
        await ask(talk, conversation="none")
        await talk.until("output_audio_buffer.started")
        await hear(talk, quiet(1.0), question(), quiet(1.0))
        await talk.until("output_audio_buffer.started", 2)
        await talk.until("output_audio_buffer.stopped")
        assert playback(talk)[:2] == [("started", "resp_1"), ("cleared", "resp_1")]
        assert playback(talk)[2:] == [("started", "resp_2"), ("stopped", "resp_2")]


@in_virtual_time
async def test_an_answer_that_fails_plays_what_there_is_of_it(silero: SileroModel) -> None:
    track = Track()
    client = ScriptedClient(Script(answer="One two three four", word_seconds=WORD_S, die_after=2))
    async with Talk(client, silero, sink=track) as talk:
        await ask(talk)
        done = await talk.until("response.done")
        assert done["response"]["status"] == "failed"
        await talk.until("output_audio_buffer.stopped")
        assert len(track.heard) == pytest.approx(2 * WORD_S * RATE, abs=FRAME)


@in_virtual_time
async def test_a_written_answer_is_not_played(silero: SileroModel) -> None:
    track = Track()
    async with Talk(ScriptedClient(), silero, sink=track) as talk:
        await ask(talk, output_modalities=["text"])
        await talk.until("response.done")
        assert talk.all("response.output_text.delta")
        assert not track.frames
        assert playback(talk) == []


@in_virtual_time
async def test_the_voice_is_fixed_once_it_was_heard(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero, sink=Track()) as talk:
        await ask(talk)
        await talk.until("response.done")
        await talk.send("session.update", session={"audio": {"output": {"voice": "other"}}})
        assert (await talk.until("error"))["error"]["code"] == "cannot_update_voice"


@in_virtual_time
async def test_an_answer_to_an_interruption_follows_what_was_heard(silero: SileroModel) -> None:
    track, client = Track(), story()
    async with Talk(client, silero, sink=track) as talk:
        await hear(talk, question(), quiet(0.6))
        await talk.until("output_audio_buffer.started")
        await hear(talk, quiet(1.0), question(), quiet(0.6))
        await talk.until("response.created", 2)
        last = client.replies[-1].request.messages
        heard = next(each for each in last if each.role == "assistant")
        assert 0 < len(heard.content.split()) < 6
        await talk.until("output_audio_buffer.started", 2)


@in_virtual_time
async def test_an_open_line_may_wait_for_a_commit_for_ever_and_what_was_said_last_is_answered(
    silero: SileroModel,
) -> None:
    client = ScriptedClient(Script(answer="One two.", word_seconds=0.3))
    async with Talk(client, silero, SessionOptions(max_buffer_ms=4000), sink=Track()) as talk:
        await talk.send("session.update", session={"audio": {"input": {"turn_detection": None}}})
        await hear(talk, quiet(11.0), question())
        await talk.send("input_audio_buffer.commit")
        await ask(talk)
        await talk.until("output_audio_buffer.stopped")
        assert not [event for event in talk.events if event["type"] == "error"]
        sound = client.replies[-1].sound
        assert len(question()) / RATE < len(sound) / 16_000 <= 4.0
        spoken = sound[-len(question()) * 16_000 // RATE :]
        assert np.sqrt(np.mean(np.square(spoken))) > 10 * np.sqrt(np.mean(np.square(sound[: -len(spoken)])))
        # Each of the replies that were begun in vain was let go.
        assert client.alive == []
