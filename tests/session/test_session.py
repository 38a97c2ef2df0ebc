"""A whole session over a scripted pipeline: real sound, the real judge, a clock that jumps."""

from __future__ import annotations

import asyncio
import base64
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.scripted import OUTPUT_RATE, Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.proto.errors import OmniError
from voice_omni.realtime.connection import Connection
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

STORY = "Once upon a time there was a cat who lived by the sea and who was not afraid of any dog or of the rain."


def question(name: str = "question-10") -> Samples:
    """A short question with 0.2 s of quiet before and after it."""
    each = recording(name)
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


def transcribing() -> dict[str, object]:
    return {"audio": {"input": {"transcription": {"model": "any"}}}}


def manual() -> dict[str, object]:
    return {"audio": {"input": {"turn_detection": None}}}


# A turn


@in_virtual_time
async def test_a_turn_from_speech_to_speech(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.send("session.update", session=transcribing())
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")
        assert talk.kinds() == [
            "session.created",
            "conversation.created",
            "session.updated",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.delta",
            "conversation.item.input_audio_transcription.completed",
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            *["response.output_audio_transcript.delta", "response.output_audio.delta"] * 6,
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
        assert len(talk.sound()) == math.ceil(6 * int(0.3 * OUTPUT_RATE) * RATE / OUTPUT_RATE)
        assert talk.all("response.done")[0]["response"]["usage"]["total_tokens"] == 18


@in_virtual_time
async def test_the_answer_is_begun_at_the_pause_and_told_when_the_turn_is_decided(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.16))
        [reply] = client.replies
        assert reply.ended.is_set()
        assert reply.taken > 0
        assert "input_audio_buffer.speech_stopped" not in talk.counts()
        await talk.say(quiet(0.5))
        await talk.until("response.done")
        assert client.replies == [reply]
        decided = talk.time_of("input_audio_buffer.speech_stopped")
        assert talk.time_of("response.output_audio.delta") == decided


@in_virtual_time
async def test_sound_is_streamed_while_the_person_speaks(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.say(question()[: int(1.0 * RATE)])
        [reply] = client.replies
        assert len(reply.sound) > 0.75 * 16000
        assert reply.request.utterance_id is not None
        assert not reply.ended.is_set()


@in_virtual_time
async def test_going_on_after_a_pause_starts_the_answer_anew_on_the_whole_utterance(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        first, second = question("question-11"), question("question-10")
        await talk.say(first[: -RATE // 10], second, quiet(1.0))
        await talk.until("response.done")
        revoked, answered = client.replies
        assert revoked.aborted.is_set()
        assert not answered.aborted.is_set()
        assert revoked.request == answered.request
        assert np.array_equal(answered.sound[: len(revoked.sound)], revoked.sound)
        assert len(answered.sound) > len(revoked.sound) + 16000
        counts = talk.counts()
        assert counts["response.created"] == counts["input_audio_buffer.committed"] == 1


@in_virtual_time
async def test_going_on_before_the_words_are_known_is_the_same_turn(silero: SileroModel) -> None:
    client = ScriptedClient()
    client.hold_transcripts = asyncio.Event()
    async with Talk(client, silero) as talk:
        await talk.say(question("question-11"), quiet(0.6))
        assert talk.counts()["input_audio_buffer.speech_stopped"] == 1
        assert talk.counts()["input_audio_buffer.committed"] == 0
        await talk.say(question("question-10"), quiet(0.6))
        client.hold_transcripts.set()
        await talk.until("response.done")
        ids = {event["item_id"] for event in talk.all("input_audio_buffer.speech_started")}
        assert ids == {talk.all("input_audio_buffer.committed")[0]["item_id"]}
        assert talk.counts()["input_audio_buffer.speech_started"] == 2
        assert talk.counts()["input_audio_buffer.committed"] == talk.counts()["response.created"] == 1
        revoked, answered = client.replies
        assert revoked.aborted.is_set()
        assert np.array_equal(answered.sound[: len(revoked.sound)], revoked.sound)


@in_virtual_time
async def test_going_on_when_the_answer_was_just_promised_aborts_it_unheard(silero: SileroModel) -> None:
    gate = asyncio.Event()

    def script(request: GenerateRequest, number: int) -> Script:
        return Script(transcript=f"part {number}", gate=gate if number == 0 else None)

    client = ScriptedClient(script)
    async with Talk(client, silero) as talk:
        await talk.say(question("question-11"), quiet(0.5))
        await talk.until("response.created")
        await talk.say(question("question-10"), quiet(0.8))
        await talk.until("response.done", 2)
        first, second = (event["response"] for event in talk.all("response.done"))
        assert (first["status"], first["output"]) == ("cancelled", [])
        assert first["status_details"]["reason"] == "turn_detected"
        assert second["status"] == "completed"
        assert client.replies[0].aborted.is_set()
        assert client.replies[-1].request.messages == (Message("user", "part 0"),)


@in_virtual_time
async def test_sound_without_words_leaves_no_item_and_no_response(silero: SileroModel) -> None:
    client = ScriptedClient(Script(silent=True))
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(1.0))
        assert talk.kinds("session", "conversation.created") == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.cleared",
        ]
        assert client.alive == []


@in_virtual_time
async def test_history_is_passed_on(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        for count in (1, 2):
            await talk.say(question(), quiet(1.0))
            await talk.until("response.done", count)
            await asyncio.sleep(3)
        assert client.replies[-1].request.messages == (
            Message("user", "what is the capital of France"),
            Message("assistant", "The capital of France is Paris."),
        )
        [first, second] = talk.all("input_audio_buffer.committed")
        answered = talk.all("response.output_item.done")[0]["item"]["id"]
        assert (first["previous_item_id"], second["previous_item_id"]) == (None, answered)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 150_000), max_size=30), every=st.sampled_from([0, 959, 961, 3001]))
def test_however_the_bytes_are_cut_the_session_behaves_the_same(
    silero: SileroModel, cuts: list[int], every: int
) -> None:
    data = encode_pcm16(np.concatenate([question("question-11"), quiet(0.8)]))

    def behaviour(borders: list[int]) -> list[object]:
        seen: list[object] = []

        @in_virtual_time
        async def scenario() -> None:
            client = ScriptedClient()
            async with Talk(client, silero) as talk:
                for start, end in itertools.pairwise(borders):
                    audio = base64.b64encode(data[start:end]).decode()
                    await talk.send("input_audio_buffer.append", audio=audio)
                await talk.until("response.done")
                seen.extend({**event, "event_id": ""} for event in talk.events if "audio.delta" not in event["type"])
                seen.append(talk.sound().tobytes())
                seen.append(client.replies[-1].sound.tobytes())

        scenario()
        return seen

    regular = range(0, len(data), every) if every else []
    borders = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts), *regular})
    assert behaviour(borders) == behaviour([0, len(data)])


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


@in_virtual_time
async def test_one_changed_threshold_leaves_turn_detection_on(silero: SileroModel) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        patch = {"audio": {"input": {"turn_detection": {"threshold": 0.6}}}}
        await talk.send("session.update", session=patch)
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")


@in_virtual_time
async def test_frames_that_stop_coming_end_the_turn(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.say(question()[: int(1.2 * RATE)])
        last = talk.clock()
        await talk.until("response.done")
        assert talk.time_of("input_audio_buffer.speech_stopped") - last <= 1.05
        assert talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"] <= 1200
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done", 2)


@in_virtual_time
async def test_an_endless_utterance_is_ended(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with Talk(client, silero, SessionOptions(max_utterance_ms=3000)) as talk:
        await talk.say(recording("human-01").samples(RATE))
        first, second = talk.all("input_audio_buffer.speech_stopped")[:2]
        started = talk.all("input_audio_buffer.speech_started")
        assert 3000 <= first["audio_end_ms"] - started[0]["audio_start_ms"] - 300 <= 3064
        assert started[1]["audio_start_ms"] == first["audio_end_ms"]
        assert second["audio_end_ms"] > first["audio_end_ms"]


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
