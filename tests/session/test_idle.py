"""Whole sessions: silence after an answer makes the server speak again."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.conversations import manual, question
from tests.support.scripted import Script, ScriptedClient
from tests.support.talk import Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.client.interface import Message
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel


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


@in_virtual_time
async def test_who_switches_it_off_is_not_spoken_to_any_more(silero: SileroModel) -> None:
    for detection in (None, {"idle_timeout_ms": None}, {"type": "semantic_vad"}):
        async with Talk(ScriptedClient(), silero) as talk:
            await talk.send("session.update", session=with_timeout())
            await talk.say(question(), quiet(0.6))
            await talk.until("response.done")
            await talk.send("session.update", session={"audio": {"input": {"turn_detection": detection}}})
            await asyncio.sleep(60)
            assert "input_audio_buffer.timeout_triggered" not in talk.counts()


@in_virtual_time
async def test_what_is_said_by_hand_after_turn_detection_was_switched_off_is_not_taken_away(
    silero: SileroModel,
) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.send("session.update", session=with_timeout())
        await talk.say(question(), quiet(0.6))
        await talk.until("response.done")
        await talk.send("session.update", session=manual())
        await asyncio.sleep(3)
        await talk.say(question(), quiet(3.0))
        await talk.send("input_audio_buffer.commit")
        await talk.read_all()
        assert talk.counts()["input_audio_buffer.committed"] == 2
        assert "error" not in talk.counts()


@in_virtual_time
async def test_another_timeout_holds_at_once(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.say(question(), quiet(0.6))
        await talk.until("response.done")
        await asyncio.sleep(60)
        for timeout_ms in (20_000, 8000):
            await talk.send("session.update", session=with_timeout(timeout_ms))
            changed = talk.clock()
            await asyncio.sleep(4)
        await talk.until("input_audio_buffer.timeout_triggered")
        assert talk.clock() == pytest.approx(changed + 8.0, abs=0.05)


@in_virtual_time
async def test_other_changes_do_not_put_it_off(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(Script(answer="One.", word_seconds=0.5)), silero) as talk:
        await talk.send("session.update", session=with_timeout())
        await talk.say(question(), quiet(0.6))
        await talk.until("response.done")
        over = talk.time_of("response.output_audio.delta") + 0.5
        for number in range(4):
            await asyncio.sleep(1)
            await talk.send("session.update", session={"instructions": str(number)})
        await talk.until("input_audio_buffer.timeout_triggered")
        assert talk.clock() == pytest.approx(over + 5.0, abs=0.05)


@in_virtual_time
async def test_an_answer_beside_the_conversation_is_not_what_was_said_last(silero: SileroModel) -> None:
    """A client that answers by its own rules asks beside the conversation what to do about a turn."""
    async with Talk(ScriptedClient(), silero) as talk:
        detection = {"idle_timeout_ms": 5000, "create_response": False}
        await talk.send("session.update", session={"audio": {"input": {"turn_detection": detection}}})
        await talk.say(question(), quiet(0.6))
        await talk.until("input_audio_buffer.committed")
        await talk.send("response.create", response={"conversation": "none", "output_modalities": ["text"]})
        await talk.until("response.done")
        await talk.send("response.create", response={"conversation": "none", "output_modalities": ["text"]})
        created = await talk.until("response.created", 2)
        await talk.send("response.cancel", response_id=created["response"]["id"])
        await asyncio.sleep(60)
        assert "input_audio_buffer.timeout_triggered" not in talk.counts()
