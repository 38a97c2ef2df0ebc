"""Whole sessions: what is said becomes turns, and each sample of it belongs to the right one."""

from __future__ import annotations

import asyncio
import base64
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.conversations import asked, manual, question, semantic, spoken, transcribing
from tests.support.judge import InlineJudge
from tests.support.scripted import OUTPUT_RATE, Script, ScriptedClient
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples, decode_pcm16, encode_pcm16
from voice_omni.audio.resample import StreamResampler
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.session.silero import SileroModel

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


def _parts(sound: Samples, stretches: list[tuple[int, int]], whole: Samples) -> list[tuple[int, int]]:
    """``sound`` as beginnings of ``stretches`` of ``whole``, in which no two places are alike."""
    parts = []
    for start, end in stretches:
        piece = whole[start:end][: len(sound)]
        unlike = np.flatnonzero(piece != sound[: len(piece)])
        length = int(unlike[0]) if len(unlike) else len(piece)
        parts.append((start, start + length))
        sound = sound[length:]
    assert not len(sound), "it is of the stream, and of its own stretches alone"
    return parts


def _hiss(count: int, seed: int) -> Samples:
    """Far too soft to be heard, but no two places in it are alike."""
    return np.random.default_rng(seed).integers(-3, 4, count).astype(np.float32) / 32768


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
        stream: list[Samples] = [_hiss(RATE // 2, 0)]
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
                        sound = sound + _hiss(len(sound), len(stream))
                        speech.append((position + 0.3, position + len(sound) / RATE - 0.3))
                        stream.append(sound)
                        await talk.say(sound, chunk=chunk)
                    case "quiet", float(seconds):
                        stream.append(_hiss(round(seconds * RATE), len(stream)))
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
        # Each turn was heard as its own stretches of the stream, by the last reply that was opened on it; what it did
        # not hear of the silences that ended them is quiet, or the beginning of what follows.
        replies = {reply.request.utterance_id: reply.sound for reply in client.replies if reply.request.utterance_id}
        assert len(replies) == len(committed)
        heard = [
            each
            for sound, own in zip(replies.values(), stretches.values(), strict=True)
            for each in _parts(sound, own, whole)
        ]
        borders = [0, *itertools.chain.from_iterable(heard), len(whole)]
        assert borders == sorted(borders), "no sample twice"
        for end, begin in zip(borders[::2], borders[1::2], strict=True):
            assert not np.abs(whole[end:begin]).max(initial=0.0) > 0.01
        for start, end in speech:
            assert sum(first / 16000 <= start and end <= last / 16000 for first, last in heard) == 1

    scenario()


@in_virtual_time
async def test_turn_detection_that_ends_in_a_pause_leaves_the_turn_to_the_client_with_all_of_it(
    silero: SileroModel,
) -> None:
    client = ScriptedClient()
    async with Talk(client, silero) as talk:
        await talk.say(question(), quiet(0.3))
        assert client.replies[-1].ended.is_set(), "an answer is being made"
        await talk.send("session.update", session=manual())
        await talk.say(question("question-11"))
        await talk.send("input_audio_buffer.commit")
        await talk.send("response.create")
        await talk.until("response.done")
        whole = (len(question()) + len(question("question-11"))) / RATE + 0.3
        assert len(client.replies[-1].sound) / 16_000 == pytest.approx(whole, abs=0.2)


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
