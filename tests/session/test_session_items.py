"""Items of sound that clients bring along, and what becomes of the settings that the pipeline has to know."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec

from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.proto.errors import OmniError
from voice_omni.realtime.transcription_session import transcribing
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

KIND = "conversation.item.input_audio_transcription"
SPEECH = recording("question-10").samples(RATE)


def item(item_id: str, seconds: float = 1.0) -> dict[str, Any]:
    audio = base64.b64encode(encode_pcm16(SPEECH[: int(seconds * RATE)])).decode()
    return {"type": "message", "role": "user", "id": item_id, "content": [{"type": "input_audio", "audio": audio}]}


@in_virtual_time
async def test_in_a_transcription_session_a_clients_own_sound_is_written_down(silero: SileroModel) -> None:
    client = ScriptedClient(Script(transcript="what was that"))
    async with Talk(client, silero) as talk:
        talk.core.session = transcribing(talk.core.session)
        await talk.send("conversation.item.create", item=item("a"))
        completed = await talk.until(f"{KIND}.completed")
        assert (completed["item_id"], completed["transcript"]) == ("a", "what was that")
        assert completed["usage"] == {"type": "duration", "seconds": 1.0}
        assert client.replies[0].request.output == "transcript"
        await asyncio.sleep(1)
        assert client.alive == []
        assert "response.created" not in talk.counts()


@in_virtual_time
async def test_a_client_that_wants_transcripts_gets_them_of_its_own_sound_and_the_answer_all_the_same(
    silero: SileroModel,
) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session={"audio": {"input": {"transcription": {"model": "any"}}}})
        await talk.send("conversation.item.create", item=item("a"))
        await talk.send("response.create")
        assert (await talk.until("response.done"))["response"]["status"] == "completed"
        assert [event["item_id"] for event in talk.all(f"{KIND}.completed")] == ["a"]
        await asyncio.sleep(1)
        assert client.alive == []


@in_virtual_time
async def test_sound_that_cannot_be_understood_is_told_to_have_failed(silero: SileroModel) -> None:
    client = ScriptedClient(Script(refuse=OmniError("overloaded", "full", retryable=True)))
    async with Talk(client, silero) as talk:
        talk.core.session = transcribing(talk.core.session)
        await talk.send("conversation.item.create", item=item("a"))
        failed = await talk.until(f"{KIND}.failed")
        assert (failed["item_id"], failed["error"]["code"]) == ("a", "overloaded")


@in_virtual_time
async def test_sound_that_waits_for_too_long_makes_room_for_newer_and_its_sender_is_told(silero: SileroModel) -> None:
    client = ScriptedClient()
    client.hold_transcripts = asyncio.Event()
    async with Talk(client, silero) as talk:
        talk.core.session = transcribing(talk.core.session)
        for number in range(70):
            await talk.send("conversation.item.create", item=item(f"i{number}", 0.1))
        await talk.read_all()
        assert [event["item_id"] for event in talk.all(f"{KIND}.failed")] == [f"i{number}" for number in range(6)]
        assert len(client.alive) <= 64
        client.hold_transcripts.set()
        await talk.until(f"{KIND}.completed", 64)
        await asyncio.sleep(1)
        assert client.alive == []


@in_virtual_time
async def test_what_a_response_is_asked_for_reaches_the_pipeline(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        talk.core.session = msgspec.structs.replace(talk.core.session, temperature=1.1)
        await talk.send("response.create", response={"max_output_tokens": 9})
        await talk.until("response.done")
        request = client.replies[0].request
        assert (request.temperature, request.max_output_tokens) == (1.1, 9)


@in_virtual_time
async def test_turn_detection_switched_off_over_an_answer_that_is_held_lets_it_go_on(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="one two three four five six seven eight", word_seconds=1.0))
    async with Talk(client, silero, SessionOptions(interrupt_min_ms=10_000)) as talk:
        await talk.send("response.create")
        await talk.until("response.output_audio.delta")
        await talk.say(SPEECH[:RATE])
        assert "input_audio_buffer.speech_started" not in talk.counts()
        await talk.send("session.update", session={"audio": {"input": {"turn_detection": None}}})
        done = await talk.until("response.done")
        assert done["response"]["status"] == "completed"


@in_virtual_time
async def test_a_response_beside_the_conversation_may_be_about_sound_that_it_brings_along(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        typed = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Before."}]}
        options = {"conversation": "none", "input": [typed, item("a")], "output_modalities": ["text"]}
        await talk.send("response.create", response=options)
        assert (await talk.until("response.done"))["response"]["status"] == "completed"
        [reply] = client.replies
        assert (reply.request.input, [message.content for message in reply.request.messages]) == ("speech", ["Before."])
        assert abs(len(reply.sound) - 16_000) <= 1
        assert talk.core.conversation.last_id is None


@in_virtual_time
async def test_a_turn_can_be_referred_to_before_its_words_are_known(silero: SileroModel) -> None:
    client = ScriptedClient(Script(transcript="what was that"))
    async with Talk(client, silero) as talk:
        await talk.send("conversation.item.create", item=item("a"))
        options = {"conversation": "none", "input": [{"type": "item_reference", "id": "a"}]}
        await talk.send("response.create", response=options)
        assert (await talk.until("response.done"))["response"]["status"] == "completed"
        await talk.send("response.create")
        await talk.until("response.done", 2)
        assert [reply.request.input for reply in client.replies] == ["speech", "speech"]
        assert [len(reply.sound) > 0 for reply in client.replies] == [True, True]
        await asyncio.sleep(1)
        assert client.alive == []


def beside(text: str, *parts: Samples) -> dict[str, Any]:
    """An item of text, and of sound in several parts."""
    sounds = [{"type": "input_audio", "audio": base64.b64encode(encode_pcm16(part)).decode()} for part in parts]
    return {"type": "message", "role": "user", "id": "a", "content": [{"type": "input_text", "text": text}, *sounds]}


@in_virtual_time
async def test_the_words_of_sound_stand_where_the_sound_stood_and_leave_the_text_beside_it_alone(
    silero: SileroModel,
) -> None:
    async with Talk(ScriptedClient(Script(transcript="what was that")), silero) as talk:
        await talk.send("session.update", session={"audio": {"input": {"transcription": {"model": "any"}}}})
        await talk.send("conversation.item.create", item=beside("Translate:", SPEECH[:RATE]))
        completed = await talk.until(f"{KIND}.completed")
        assert completed["content_index"] == 1
        assert {event["content_index"] for event in talk.all(f"{KIND}.delta")} == {1}
        await talk.send("conversation.item.retrieve", item_id="a")
        retrieved = await talk.until("conversation.item.retrieved")
        assert retrieved["item"]["content"] == [
            {"type": "input_text", "text": "Translate:"},
            {"type": "input_audio", "transcript": "what was that"},
        ]
        assert [message.content for message in talk.core.conversation.messages()] == ["Translate: what was that"]


@in_virtual_time
async def test_sound_that_fails_to_be_understood_is_named_by_its_part(silero: SileroModel) -> None:
    client = ScriptedClient(Script(refuse=OmniError("overloaded", "full", retryable=True)))
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session={"audio": {"input": {"transcription": {"model": "any"}}}})
        await talk.send("conversation.item.create", item=beside("Translate:", SPEECH[:RATE]))
        assert (await talk.until(f"{KIND}.failed"))["content_index"] == 1


@in_virtual_time
async def test_the_model_is_told_the_text_beside_the_sound_that_it_answers(silero: SileroModel) -> None:
    client = ScriptedClient(Script(transcript="what was that"))
    async with Talk(client, silero) as talk:
        await talk.send("conversation.item.create", item=beside("Translate:", SPEECH[:RATE]))
        await talk.send("response.create")
        await talk.until("response.done")
        [reply] = client.replies
        assert (reply.request.input, [message.content for message in reply.request.messages]) == (
            "speech",
            ["Translate:"],
        )


@in_virtual_time
async def test_sound_in_several_parts_is_heard_as_one(silero: SileroModel) -> None:
    """Base64 of each part is padded by itself, wherever the sound was cut."""
    client = ScriptedClient(Script(transcript="what was that"))
    cut = 1001
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session={"audio": {"input": {"transcription": {"model": "any"}}}})
        await talk.send("conversation.item.create", item=beside("Translate:", SPEECH[:cut], SPEECH[cut:RATE]))
        assert (await talk.until(f"{KIND}.completed"))["usage"]["seconds"] == 1.0
        item = talk.core.conversation.find("a")
        assert item is not None
        assert [part.get("transcript") for part in item.to_json()["content"]] == [None, "what was that", ""]
