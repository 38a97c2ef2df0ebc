"""A whole session over a scripted pipeline: real sound, the real judge, a clock that jumps."""

from __future__ import annotations

import asyncio
import base64
import math

import numpy as np
import pytest

from tests.support.conversations import STORY, question, transcribing
from tests.support.scripted import Script, ScriptedClient
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import encode_pcm16
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.proto.errors import OmniError
from voice_omni.realtime.connection import Connection
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

# Text


@in_virtual_time
async def test_a_typed_question_is_answered_in_sound_or_in_text(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        part = {"type": "input_text", "text": "What is the capital of France?"}
        await talk.send("conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await talk.send("response.create")
        await talk.until("response.done")
        assert client.replies[0].request.input == "text"
        assert client.replies[0].request.messages == (Message("user", part["text"]),)
        assert len(talk.sound()) > RATE
        await talk.send("response.create", response={"output_modalities": ["text"]})
        await talk.until("response.done", 2)
        assert client.replies[1].request.output == "text"
        assert talk.all("response.output_text.done")[0]["text"] == "The capital of France is Paris."


@in_virtual_time
async def test_an_item_of_sound_is_heard_when_it_is_answered(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        part = {"type": "input_audio", "audio": base64.b64encode(encode_pcm16(question())).decode()}
        await talk.send("conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await talk.send("response.create")
        await talk.until("response.done")
        [reply] = client.replies
        assert (reply.request.input, reply.request.messages) == ("speech", ())
        assert len(reply.sound) == math.ceil(len(question()) * 16000 / RATE)


@in_virtual_time
async def test_an_interruption_does_not_touch_an_answer_beside_the_conversation(silero: SileroModel) -> None:
    gate = asyncio.Event()
    client = ScriptedClient(lambda request, _: Script(gate=gate if request.output == "text" else None, answer=STORY))
    async with Talk(client, silero) as talk:
        options = {"conversation": "none", "input": [], "output_modalities": ["text"]}
        await talk.send("response.create", response=options)
        await talk.say(question(), quiet(0.7), question("question-11"))
        gate.set()
        done = await talk.until("response.done", 2)
        statuses = {event["response"]["id"]: event["response"]["status"] for event in talk.all("response.done")}
        assert statuses == {"resp_1": "completed", "resp_2": "cancelled"}
        assert done["response"]["output"][0]["content"][0]["text"] == STORY


# Failures


@in_virtual_time
async def test_a_pipeline_that_dies_in_the_middle_ends_the_response(silero: SileroModel) -> None:
    client = ScriptedClient(lambda _, number: Script(die_after=2 if number == 0 else None))
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(1.0))
        done = await talk.until("response.done")
        assert done["response"]["status"] == "failed"
        assert done["response"]["status_details"]["error"]["code"] == "stage_died"
        await talk.say(question(), quiet(1.0))
        assert (await talk.until("response.done", 2))["response"]["status"] == "completed"


@in_virtual_time
async def test_a_pipeline_that_is_full_when_speech_begins_is_asked_again_when_it_pauses(silero: SileroModel) -> None:
    full = OmniError("overloaded", "too many requests", retryable=True)
    client = ScriptedClient(lambda _, number: Script(refuse=full if number == 0 else None))
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(1.0))
        done = await talk.until("response.done")
        assert done["response"]["status"] == "completed"
        assert len(client.replies[0].sound) > 16000


@in_virtual_time
async def test_a_pipeline_that_stays_full_fails_the_response_with_its_reason(silero: SileroModel) -> None:
    full = OmniError("overloaded", "too many requests", retryable=True)
    client = ScriptedClient(Script(refuse=full))
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=transcribing())
        await talk.say(question(), quiet(1.0))
        done = await talk.until("response.done")
        assert done["response"]["status"] == "failed"
        assert done["response"]["status_details"]["error"]["code"] == "overloaded"
        assert talk.counts()["conversation.item.input_audio_transcription.failed"] == 1


@in_virtual_time
async def test_an_unexpected_fault_of_a_reply_is_that_replys_alone(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(ScriptedClient):
        async def open(self, request: GenerateRequest):  # type: ignore[no-untyped-def]
            if request.input == "text":
                raise ZeroDivisionError
            return await super().open(request)

    client = Faulty()
    async with Talk(client, silero) as talk:
        await talk.send("response.create", response={"input": []})
        done = await talk.until("response.done")
        assert done["response"]["status_details"]["error"]["code"] == "internal_error"
        await talk.say(question(), quiet(1.0))
        assert (await talk.until("response.done", 2))["response"]["status"] == "completed"
    assert "ZeroDivisionError" in caplog.text


# Delivery


@in_virtual_time
async def test_sound_is_sent_ahead_by_the_lead_and_no_more(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY, word_seconds=0.5))
    async with Talk(client, silero, SessionOptions(max_lead_ms=1000)) as talk:
        await talk.say(question(), quiet(0.7))
        await talk.until("response.done")
        sent, ahead = 0.0, []
        began = talk.time_of("response.output_audio.delta")
        for event, time in zip(talk.events, talk.times, strict=True):
            if event["type"] == "response.output_audio.delta":
                sent += len(event["delta"]) * 3 / 4 / 2 / RATE
                ahead.append(sent - (time - began))
        assert 0.9 < max(ahead) < 1.25
        assert min(ahead) > 0
        assert len(talk.sound()) / RATE == pytest.approx(0.5 * len(STORY.split()), abs=0.01)


@in_virtual_time
async def test_a_client_that_does_not_read_stops_its_own_talker_and_nobody_elses(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=" ".join(["word"] * 400), word_seconds=0.5))
    other = ScriptedClient()
    options = SessionOptions(max_lead_ms=600_000)
    async with Talk(client, silero, options, reading=False) as slow, Talk(other, silero) as quick:
        await slow.say(question(), quiet(0.7))
        await asyncio.sleep(30)
        taken = client.replies[0].taken
        assert taken < 20
        await asyncio.sleep(30)
        assert client.replies[0].taken == taken
        await quick.say(question(), quiet(0.7))
        await quick.until("response.done")
        slow.reading.set()
        await slow.until("response.done")
        assert len(slow.sound()) == 200 * RATE


@in_virtual_time
async def test_leaving_in_the_middle_ends_everything(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY))
    for seconds in (0.3, 1.0, 1.5, 2.0, 2.5, 4.0):
        async with Talk(client, silero) as talk:
            await talk.say(np.concatenate([question(), quiet(5.0)])[: int(seconds * RATE)])
        assert client.alive == []
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@in_virtual_time
async def test_a_session_has_a_longest_duration(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero, SessionOptions(max_duration_s=60)) as talk:
        error = await talk.until("error", within=61)
        assert error["error"]["code"] == "session_expired"
        await asyncio.sleep(0)
        assert talk.closed is not None
        assert talk.closed.code == 1001


@in_virtual_time
async def test_timings_are_told_to_those_who_asked(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero, connection=Connection(timings=True)) as talk:
        await talk.say(question(), quiet(1.0))
        timings = (await talk.until("response.done"))["response"]["timings"]
        turn = timings["turn"]
        assert 120 < turn["paused"] < 180
        assert 490 < turn["stopped"] < 550
        assert turn["stopped"] <= turn["committed"] <= turn["first_audio"]
        assert set(timings["stages"]["thinker"]) == {"opened", "input_ended", "first_output", "finished"}
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.say(question(), quiet(1.0))
        assert "timings" not in (await talk.until("response.done"))["response"]
