"""Whole sessions: where turns end, by silence or by a judge, and sound that stops coming."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from tests.support.conversations import question, semantic
from tests.support.judge import InlineJudge
from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.audio.pcm import Samples
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel


@in_virtual_time
async def test_a_turn_that_sounds_complete_ends_at_a_short_pause(silero: SileroModel) -> None:
    judge = InlineJudge(lambda _: 0.9, seconds=0.05)
    async with Talk(ScriptedClient(), silero, judge=judge) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")
        [asked] = judge.asked
        stopped = talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
        started = talk.all("input_audio_buffer.speech_started")[0]["audio_start_ms"]
        assert len(asked) == (stopped - started) * 16
        assert talk.time_of("input_audio_buffer.speech_stopped") - stopped / 1000 == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize(("eagerness", "seconds"), [("low", 8), ("medium", 4), ("auto", 4), ("high", 2)])
def test_a_turn_that_does_not_is_waited_for(silero: SileroModel, eagerness: str, seconds: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with Talk(ScriptedClient(), silero, judge=InlineJudge(lambda _: 0.1)) as talk:
            await talk.send("session.update", session=semantic(eagerness))
            sound = question()
            await talk.say(sound, quiet(seconds + 1.0))
            stopped = talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
            assert 0 <= stopped / 1000 - (len(sound) / RATE - 0.2 + seconds) < 0.15

    scenario()


@in_virtual_time
async def test_a_pause_in_an_unfinished_sentence_is_not_answered(silero: SileroModel) -> None:
    judge = InlineJudge(lambda sound: 0.9 if len(sound) > 3 * 16000 else 0.1)
    client = ScriptedClient()
    async with Talk(client, silero, judge=judge) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question("question-11"), quiet(1.5), question(), quiet(1.0))
        await talk.until("response.done")
        counts = talk.counts()
        assert counts["input_audio_buffer.committed"] == counts["response.created"] == 1
        assert len(judge.asked) > 2


@in_virtual_time
async def test_a_judge_that_does_not_answer_leaves_it_to_silence(silero: SileroModel) -> None:
    judge = InlineJudge(lambda _: 0.9, seconds=30)
    async with Talk(ScriptedClient(), silero, SessionOptions(semantic_timeout_ms=400), judge=judge) as talk:
        await talk.send("session.update", session=semantic())
        sound = question()
        await talk.say(sound, quiet(1.5))
        await talk.until("response.done")
        stopped = talk.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"] / 1000
        assert 0.25 < stopped - len(sound) / RATE < 0.5
        assert talk.counters.unjudged == 1


@in_virtual_time
async def test_a_judge_that_fails_is_told_of_and_leaves_it_to_silence(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Samples) -> float:
        raise ZeroDivisionError

    class Broken(InlineJudge):
        def ask(self, samples: Samples) -> asyncio.Future[float]:
            future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            future.set_exception(ZeroDivisionError())
            return future

    async with Talk(ScriptedClient(), silero, judge=Broken(broken)) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question(), quiet(1.0))
        await talk.until("response.done")
    assert "the end-of-turn model failed" in caplog.text


@in_virtual_time
async def test_a_recording_that_is_sent_at_once_is_heard_like_a_person(silero: SileroModel) -> None:
    """The judgements take as long as they take; what comes after each pause waits for them."""

    async def turns(*, at_once: bool) -> list[tuple[int, int]]:
        judge = InlineJudge(lambda sound: 0.9 if len(sound) > 30_000 else 0.1, seconds=0.3)
        async with Talk(ScriptedClient(Script(silent=True)), silero, judge=judge) as talk:
            await talk.send("session.update", session=semantic())
            sound = np.concatenate(
                [question(), quiet(1.0), question("question-11"), quiet(2.0), question(), quiet(2.0)]
            )
            await (talk.append(sound) if at_once else talk.say(sound))
            await asyncio.sleep(1)
            started = [event["audio_start_ms"] for event in talk.all("input_audio_buffer.speech_started")]
            stopped = [event["audio_end_ms"] for event in talk.all("input_audio_buffer.speech_stopped")]
            return list(zip(started, stopped, strict=True))

    paced = await turns(at_once=False)
    assert len(paced) >= 2
    assert await turns(at_once=True) == paced


@in_virtual_time
async def test_leaving_while_a_judgement_is_under_way(silero: SileroModel) -> None:
    options = SessionOptions(semantic_timeout_ms=20_000)
    async with Talk(ScriptedClient(), silero, options, judge=InlineJudge(lambda _: 0.9, seconds=5)) as talk:
        await talk.send("session.update", session=semantic())
        await talk.say(question(), quiet(0.1))
    await asyncio.sleep(10)
    assert "input_audio_buffer.speech_stopped" not in talk.counts()


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


@in_virtual_time
async def test_a_dead_microphone_is_told_of_once_and_so_is_its_recovery(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.say(question()[: int(1.2 * RATE)])
        await asyncio.sleep(5)
        assert talk.counts()["input_audio_buffer.speech_stopped"] == 1
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        await talk.say(quiet(1.0))
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert "after 5." in caplog.records[-1].getMessage()
        assert (talk.counters.stalls, talk.counters.recoveries) == (1, 1)


@in_virtual_time
async def test_a_microphone_that_is_off_from_the_start_is_nothing_to_tell(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    async with Talk(ScriptedClient(), silero) as talk:
        await asyncio.sleep(600)
        assert talk.kinds("session", "conversation") == []
    assert caplog.text == ""


@in_virtual_time
async def test_speech_in_steady_noise_ends(silero: SileroModel) -> None:
    sound = np.concatenate([question(), quiet(2.0)])
    noise = 0.06 * 10 ** (-35 / 20) * np.cumsum(np.random.default_rng(1).standard_normal(len(sound))).astype(np.float32)
    noise -= np.convolve(noise, np.ones(500, np.float32) / 500, "same")
    async with Talk(ScriptedClient(), silero) as talk:
        await talk.say(sound + noise / noise.std() * np.float32(0.06 * 10 ** (-35 / 20)))
        await talk.until("response.done")
