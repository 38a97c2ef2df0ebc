"""A session's part in the protocol beyond turns: greetings, transcripts that grow, calls under interruption."""

from __future__ import annotations

import asyncio

from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.client.interface import GenerateRequest
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

KIND = "conversation.item.input_audio_transcription"


@in_virtual_time
async def test_an_empty_conversation_is_opened_by_the_server(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="Welcome."))
    async with Talk(client, silero) as talk:
        await talk.send("response.create", response={"instructions": "Greet the caller."})
        response = (await talk.until("response.done"))["response"]
        assert response["output"][0]["content"][0]["transcript"] == "Welcome."
        [reply] = client.replies
        assert (reply.request.input, reply.request.messages) == ("text", ())
        assert reply.request.instructions == "Greet the caller."


@in_virtual_time
async def test_words_are_told_as_they_become_certain_once_the_turn_is_an_item(silero: SileroModel) -> None:
    words = ["one", "two", "three", "four"]
    client = ScriptedClient(Script(understand=lambda sound: " ".join(words[: len(sound) // 8000])))
    client.hold_transcripts = asyncio.Event()
    async with Talk(client, silero) as talk:
        settings = {"turn_detection": None, "transcription": {"model": "any"}}
        await talk.send("session.update", session={"audio": {"input": settings}})
        await talk.say(recording("question-10").samples(RATE)[: 2 * RATE + 100])
        await talk.send("input_audio_buffer.commit")
        await asyncio.sleep(0.5)
        assert talk.counts()[f"{KIND}.completed"] == 0
        client.hold_transcripts.set()
        completed = await talk.until(f"{KIND}.completed")
        assert completed["transcript"] == "one two three four"
        deltas = [event["delta"] for event in talk.all(f"{KIND}.delta")]
        assert "".join(deltas) == "one two three four"


@in_virtual_time
async def test_a_call_behind_words_that_were_interrupted_is_not_made(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="one two three four five six seven", word_seconds=1.0, calls=(("f", "{}"),)))
    async with Talk(client, silero) as talk:
        await talk.send("response.create")
        await talk.until("response.output_audio.delta")
        await talk.send("response.cancel")
        response = (await talk.until("response.done"))["response"]
        assert [item["type"] for item in response["output"]] == ["message"]
        await asyncio.sleep(1)
        assert "response.function_call_arguments.delta" not in talk.counts()
        assert client.alive == []


@in_virtual_time
async def test_a_response_asked_for_in_the_same_breath_as_a_cancellation_is_made(silero: SileroModel) -> None:
    client = ScriptedClient(Script(word_seconds=1.0))
    async with Talk(client, silero) as talk:
        await talk.send("response.create")
        await talk.until("response.output_audio.delta")
        await talk.send("response.cancel")
        await talk.send("response.create")
        await talk.until("response.done", 2)
        statuses = [event["response"]["status"] for event in talk.all("response.done")]
        assert statuses == ["cancelled", "completed"]
        assert talk.counts()["error"] == 0
        kinds = talk.kinds()
        assert kinds.index("response.done") < len(kinds) - 1 - kinds[::-1].index("response.created")


@in_virtual_time
async def test_a_session_that_has_lasted_its_time_says_so_and_closes(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero, SessionOptions(max_duration_s=60)) as talk:
        await asyncio.sleep(59)
        assert talk.counts()["error"] == 0
        await asyncio.sleep(2)
        assert talk.events[-1]["error"]["code"] == "session_expired"
        assert talk.closed is not None
        assert talk.closed.code == 1001


@in_virtual_time
async def test_who_goes_on_just_as_the_answer_starts_is_answered_once_and_to_all_of_it(silero: SileroModel) -> None:
    """What was committed keeps its id, which the client knows, so that there are two items; the model is told both."""
    transcripts = iter(["turn on the light", "in the kitchen"])
    heard: dict[str | None, str] = {}

    def script(request: GenerateRequest, number: int) -> Script:
        if request.utterance_id not in heard:
            heard[request.utterance_id] = next(transcripts)
        begins = heard[request.utterance_id] == "turn on the light"
        return Script(
            heard[request.utterance_id], word_seconds=9.0 if begins else 0.3, hang_after=1 if begins else None
        )

    client = ScriptedClient(script)
    first, second = recording("question-10").samples(RATE), recording("question-01").samples(RATE)
    async with Talk(client, silero) as talk:
        await talk.say(first, quiet(0.4))
        await talk.until("response.created")
        await talk.say(second, quiet(1.5))
        done = await talk.until("response.done", 2)
        assert [event["response"]["status"] for event in talk.all("response.done")] == ["cancelled", "completed"]
        cancelled = talk.all("response.done")[0]["response"]
        assert cancelled["status_details"]["reason"] == "turn_detected"
        users = [
            event["item"]["id"] for event in talk.all("conversation.item.added") if event["item"]["role"] == "user"
        ]
        assert len(users) == 2
        request = client.replies[-1].request
        assert (request.input, [message.content for message in request.messages]) == ("speech", ["turn on the light"])
        [answer] = done["response"]["output"]
        told = [(message.role, message.content) for message in talk.core.conversation.messages()]
        spoken = answer["content"][0]["transcript"]
        assert told == [("user", "turn on the light"), ("user", "in the kitchen"), ("assistant", spoken)]
