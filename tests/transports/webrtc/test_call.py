"""Conversations over real calls on this machine: what is said, heard, interrupted and held."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from tests.support import openai_contract
from tests.support.caller import services
from tests.support.calling import RATE, RtcCaller, calling, offer
from tests.support.patience import PATIENCE_S
from tests.support.scripted import TONE_HZ, Script, ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from tests.support.webrtc_peer import Caller
from voice_omni.audio.pcm import Samples
from voice_omni.server import create_app
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

STORY = "Once upon a time there was a cat who lived by the sea and who was not afraid of any dog or of the rain."
WORD_S = 0.5
TRANSCRIBED = {"type": "realtime", "audio": {"input": {"transcription": {"model": "any"}}}}


def question() -> Samples:
    each = recording("question-10")
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


def pitch(sound: Samples) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(spectrum.argmax() * RATE / len(sound))


def is_all_but_losses(heard: Samples, seconds: float) -> bool:
    """Sound of this length, of which a busy machine may have lost some on the way."""
    return 0.5 * seconds < len(heard) / RATE < seconds + 0.1


def loud_times(caller: RtcCaller) -> list[float]:
    """In seconds of the track."""
    return [time for time, samples in caller.sound if np.abs(samples).max() > 0.02]


async def test_what_is_said_is_answered_with_sound_on_the_track(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="One two three.", word_seconds=0.4))
    async with serving(create_app(services(client, silero))) as address, calling(address, TRANSCRIBED) as caller:
        await caller.say(question(), RATE)
        await caller.until("output_audio_buffer.stopped")
        kinds = [kind for kind in caller.kinds() if not kind.startswith("conversation.item.")]
        assert kinds[:2] == ["session.created", "conversation.created"]
        started = kinds.index("output_audio_buffer.started")
        assert kinds.index("response.content_part.added") < started < kinds.index("output_audio_buffer.stopped")
        assert "response.output_audio.delta" not in kinds
        words = "".join(event["delta"] for event in caller.all("response.output_audio_transcript.delta"))
        assert words == "One two three."
        said = await caller.until("conversation.item.input_audio_transcription.completed")
        assert said["transcript"] == "what is the capital of France"
        for event in caller.events:
            openai_contract.check(event)
        await caller.silence()
        heard = caller.heard()
        assert is_all_but_losses(heard, 3 * 0.4)
        assert pitch(heard) == pytest.approx(TONE_HZ, abs=4)
        [reply] = [each for each in client.replies if each.ended.is_set()]
        # The reply got the turn's speech: as loud as it was spoken, and as long.
        spoken = question()
        ratio = np.sqrt(np.mean(np.square(reply.sound)) / np.mean(np.square(spoken)))
        assert 0.5 < ratio < 1.5


async def test_a_caller_without_an_event_channel_is_answered_all_the_same(silero: SileroModel) -> None:
    caller = Caller(np.concatenate([question(), np.zeros(RATE, np.float32)]), channel=None)
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        await caller.accept((await offer(address, await caller.offer())).text)
        async with asyncio.timeout(PATIENCE_S):
            while not len(caller.frames) or pitch(caller.heard[-RATE // 2 :]) != pytest.approx(TONE_HZ, abs=4):
                await asyncio.sleep(0.1)
        await caller.close()


async def test_the_sound_of_the_call_is_the_sessions_clock(silero: SileroModel) -> None:
    async with serving(create_app(services(ScriptedClient(), silero))) as address, calling(address) as caller:
        await asyncio.sleep(1.0)
        before = sum(len(samples) for _, samples in caller.sound) * 1000 / RATE
        await caller.say(question(), RATE)
        started = await caller.until("input_audio_buffer.speech_started")
        stopped = await caller.until("input_audio_buffer.speech_stopped")
        assert started["audio_start_ms"] > before - 400
        spoken_ms = len(question()) * 1000 / RATE - 400
        # From the prefix before the onset to the silence that ended the turn.
        lasted = stopped["audio_end_ms"] - started["audio_start_ms"]
        assert lasted == pytest.approx(300 + spoken_ms + 500, abs=250)


async def test_speech_stops_the_answer_and_truncates_it_where_it_was_heard(silero: SileroModel) -> None:
    client = ScriptedClient(lambda request, number: Script(answer=STORY, word_seconds=WORD_S))
    async with serving(create_app(services(client, silero))) as address, calling(address) as caller:
        caller.send("response.create")
        await caller.until("output_audio_buffer.started")
        await caller.hear(1.5)
        speaking = asyncio.create_task(caller.say(question(), RATE))
        await caller.until(
            "output_audio_buffer.cleared", response_id=caller.all("response.created")[0]["response"]["id"]
        )
        truncated = await caller.until("conversation.item.truncated")
        done = await caller.until("response.done")
        await speaking
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        # The next answer comes only after the question: until then the track is silent.
        await caller.until("output_audio_buffer.started", 2)
        await caller.hear(len(caller.heard()) / RATE + 0.2)
        times = np.array(loud_times(caller))
        first = int(np.argmax(np.diff(times) > 0.5)) + 1
        assert is_all_but_losses(np.zeros(first * RATE // 50), truncated["audio_end_ms"] / 1000)
        caller.send("conversation.item.retrieve", item_id=truncated["item_id"])
        item = (await caller.until("conversation.item.retrieved"))["item"]
        heard = item["content"][0]["transcript"]
        assert STORY.startswith(heard)
        assert len(heard.split()) == truncated["audio_end_ms"] // (WORD_S * 1000)
        kinds = caller.kinds()
        assert kinds.index("input_audio_buffer.speech_started") < kinds.index("output_audio_buffer.cleared")


async def test_a_held_answer_goes_on_when_nothing_was_said(silero: SileroModel) -> None:
    options = SessionOptions(interrupt_min_words=3, resume_ms=200)
    scripts = iter([Script(answer="One two three four five six.", word_seconds=WORD_S)])
    client = ScriptedClient(lambda request, _: next(scripts, Script(silent=True)))
    async with serving(create_app(services(client, silero, options=options))) as address, calling(address) as caller:
        caller.send("response.create")
        await caller.until("output_audio_buffer.started")
        await caller.say(question(), RATE)
        await caller.until("output_audio_buffer.stopped")
        await caller.silence()
        times = np.array(loud_times(caller))
        assert np.diff(times).max() > 0.3, "it was not held"
        assert is_all_but_losses(caller.heard(), 6 * WORD_S)
        assert not caller.all("conversation.item.truncated")
        assert not caller.all("output_audio_buffer.cleared")


async def test_a_function_is_called_and_its_result_spoken(silero: SileroModel) -> None:
    tool = {
        "type": "function",
        "name": "weather",
        "description": "?",
        "parameters": {"type": "object", "properties": {}},
    }
    arguments = json.dumps({"city": "Paris"})
    scripts = iter([Script(answer="", calls=(("weather", arguments),)), Script(answer="Rain.", word_seconds=0.4)])
    client = ScriptedClient(lambda request, _: next(scripts))
    async with (
        serving(create_app(services(client, silero))) as address,
        calling(address, {"type": "realtime", "tools": [tool]}) as caller,
    ):
        caller.send("response.create")
        call = await caller.until("response.function_call_arguments.done")
        assert (call["name"], call["arguments"]) == ("weather", arguments)
        await caller.until("response.done")
        assert not caller.all("output_audio_buffer.started")
        item = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        caller.send("conversation.item.create", item=item)
        caller.send("response.create")
        await caller.until("output_audio_buffer.stopped")
        await caller.silence()
        assert is_all_but_losses(caller.heard(), 0.4)


async def test_a_client_clears_the_playback(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=STORY, word_seconds=WORD_S))
    async with serving(create_app(services(client, silero))) as address, calling(address) as caller:
        caller.send("response.create")
        await caller.hear(0.5)
        caller.send("response.cancel")
        caller.send("output_audio_buffer.clear")
        await caller.until("output_audio_buffer.cleared")
        await caller.silence(1.0)
        assert len(caller.heard()) / RATE < len(STORY.split()) * WORD_S / 2
        assert not caller.all("error")


async def test_sound_can_be_appended_as_events_too(silero: SileroModel) -> None:
    """Push to talk by hand, without turn detection, on the event channel."""
    client = ScriptedClient(Script(answer="Yes.", word_seconds=0.4))
    manual = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    async with serving(create_app(services(client, silero))) as address, calling(address, manual) as caller:
        caller.send("input_audio_buffer.clear")
        await caller.until("input_audio_buffer.cleared")
        await caller.say(question(), RATE)
        caller.send("input_audio_buffer.commit")
        await caller.until("input_audio_buffer.committed")
        caller.send("response.create")
        await caller.until("output_audio_buffer.stopped")
        assert not caller.all("error")
        caller.send("input_audio_buffer.append", audio="@@@")
        assert (await caller.until("error"))["error"]["param"] == "audio"


async def test_an_event_that_the_caller_cannot_take_is_replaced_by_an_error(silero: SileroModel) -> None:
    """aiortc takes messages of up to 256 KiB."""
    async with serving(create_app(services(ScriptedClient(), silero))) as address, calling(address) as caller:
        caller.send("session.update", session={"instructions": "x" * 150_000})
        await caller.until("session.updated")
        tool = {"type": "function", "name": "long", "description": "y" * 150_000, "parameters": {"type": "object"}}
        caller.send("session.update", session={"tools": [tool]})
        assert (await caller.until("error"))["error"]["code"] == "message_too_large"
        caller.send("session.update", session={"instructions": "Be brief."})
        updated = await caller.until("session.updated", 2)
        assert updated["session"]["instructions"] == "Be brief."


async def test_a_caller_who_sends_more_than_can_wait_is_cut_off(
    silero: SileroModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice_omni.transports.webrtc.inbox.MOST_TEXT", 1000)
    async with serving(create_app(services(ScriptedClient(), silero))) as address, calling(address) as caller:
        caller.send("session.update", session={"instructions": "x" * 1000})
        await caller.hung_up.wait()
        assert caller.events[-1]["error"]["code"] == "overloaded"
