"""Whole sessions: who asks for an answer, and which one it is."""

from __future__ import annotations

import asyncio
import math
from collections import Counter

import numpy as np
import pytest

from tests.support.conversations import manual, question, transcribing
from tests.support.scripted import Script, ScriptedClient
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.client.interface import Message
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

# Races between the client and the server


@pytest.mark.parametrize("moment", ["before the words are known", "right after", "while it is spoken"])
def test_one_turn_gets_one_answer_even_if_the_client_asks_for_it_too(silero: SileroModel, moment: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        client = ScriptedClient()
        client.hold_transcripts = asyncio.Event()
        async with Talk(client, silero) as talk:
            await talk.say(question(), quiet(0.5))
            await talk.until("input_audio_buffer.speech_stopped")
            if moment == "before the words are known":
                await talk.send("response.create", event_id="mine")
                client.hold_transcripts.set()
            else:
                client.hold_transcripts.set()
                if moment == "while it is spoken":
                    await talk.until("response.output_audio.delta")
                else:
                    await talk.until("response.created")
                await talk.send("response.create", event_id="mine")
            await talk.until("response.done")
            await asyncio.sleep(5)
            counts = talk.counts()
            assert counts["response.created"] == counts["response.done"] == counts["input_audio_buffer.committed"] == 1
            errors = [event["error"] for event in talk.all("error")]
            if moment == "before the words are known":
                assert errors == []
            elif errors:
                assert errors[0]["code"] == "conversation_already_has_active_response"
                assert errors[0]["event_id"] == "mine"

    scenario()


@in_virtual_time
async def test_a_commit_after_the_servers_own_makes_no_phantom_turn(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.6))
        await talk.send("input_audio_buffer.commit")
        await talk.say(quiet(0.3))
        await talk.send("input_audio_buffer.commit")
        await talk.until("error", 2)
        await talk.until("response.done")
        codes = Counter(event["error"]["code"] for event in talk.all("error"))
        assert codes == {"input_audio_buffer_commit_empty": 2}
        assert talk.counts()["input_audio_buffer.committed"] == talk.counts()["response.done"] == 1


# Turns by hand


@in_virtual_time
async def test_push_to_talk(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=manual())
        await talk.say(question(), chunk=481)
        await talk.send("input_audio_buffer.commit")
        await asyncio.sleep(0.5)
        assert talk.events[-1]["type"] == "conversation.item.done"
        await talk.send("response.create")
        await talk.until("response.done")
        [reply] = client.replies  # begun while the person spoke
        assert reply.request.input == "speech"
        assert len(reply.sound) == math.ceil(len(question()) * 16000 / RATE)
        assert "input_audio_buffer.speech_started" not in talk.counts()


@in_virtual_time
async def test_an_answer_asked_for_with_other_instructions_is_made_anew_from_the_same_sound(
    silero: SileroModel,
) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=manual())
        await talk.say(question())
        await talk.send("input_audio_buffer.commit")
        await talk.send("response.create", response={"instructions": "Answer in French."})
        await talk.until("response.done")
        prepared, answered = client.replies
        assert prepared.aborted.is_set()
        assert answered.request.instructions == "Answer in French."
        assert answered.request.utterance_id == prepared.request.utterance_id
        assert np.array_equal(answered.sound, prepared.sound)


@in_virtual_time
async def test_an_answer_that_nobody_asks_for_is_let_go(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero, SessionOptions(hold_ms=2000)) as talk:
        await talk.send("session.update", session=manual())
        await talk.say(question())
        await talk.send("input_audio_buffer.commit")
        await asyncio.sleep(3)
        assert client.alive == []
        await talk.send("response.create")
        await talk.until("response.done")
        assert client.replies[-1].request.input == "text"
        assert client.replies[-1].request.messages == (Message("user", "what is the capital of France"),)


@in_virtual_time
async def test_several_commits_are_all_transcribed(silero: SileroModel) -> None:
    client = ScriptedClient(lambda request, _: Script(transcript=f"words of {request.utterance_id}"))
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=transcribing())
        await talk.send("session.update", session=manual())
        for _ in range(3):
            await talk.append(question())
            await talk.send("input_audio_buffer.commit")
        await talk.until("conversation.item.input_audio_transcription.completed", 3)
        await talk.send("response.create")
        await talk.until("response.done")
        request = client.replies[-1].request
        assert request.messages == (Message("user", "words of utt_1"), Message("user", "words of utt_2"))
        assert request.utterance_id == "utt_3"
        assert client.alive == []


@in_virtual_time
async def test_cleared_sound_is_not_answered(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=manual())
        await talk.append(question())
        await talk.send("input_audio_buffer.clear")
        await asyncio.sleep(0.1)
        assert client.alive == []
        await talk.append(question("question-11"))
        await talk.send("input_audio_buffer.commit")
        await talk.send("response.create")
        await talk.until("response.done")
        expected = math.ceil((len(question()) + len(question("question-11"))) * 16000 / RATE) - math.ceil(
            len(question()) * 16000 / RATE
        )
        assert len(client.replies[-1].sound) == expected


@in_virtual_time
async def test_silence_that_is_committed_by_hand_gets_an_empty_answer(silero: SileroModel) -> None:
    client = ScriptedClient(Script(silent=True))
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=manual())
        await talk.append(quiet(1.0))
        await talk.send("input_audio_buffer.commit")
        await talk.send("response.create")
        done = await talk.until("response.done")
        assert (done["response"]["status"], done["response"]["output"]) == ("completed", [])


@in_virtual_time
async def test_a_server_that_only_detects_turns_answers_when_asked(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        patch = {"audio": {"input": {"turn_detection": {"create_response": False}}}}
        await talk.send("session.update", session=patch)
        await talk.say(question(), quiet(1.0))
        assert talk.counts()["input_audio_buffer.committed"] == 1
        assert talk.counts()["response.created"] == 0
        await talk.send("response.create")
        await talk.until("response.done")
        assert len(client.replies) == 1
