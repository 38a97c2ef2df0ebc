"""One reply in flight: held, released, aborted, broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from tests.support.scripted import Script, ScriptedClient, ScriptedReply
from tests.support.virtual_time import in_virtual_time
from voice_omni.client.interface import AudioDelta, Done, GenerateRequest, ReplyEvent, TextDelta, Transcript
from voice_omni.proto.errors import ErrorInfo
from voice_omni.session.reply_run import ReplyRun
from voice_omni.session.utterance import Utterance

SPOKEN = GenerateRequest(input="speech")
TYPED = GenerateRequest(input="text")


class Log:
    """Writes down what is reported."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.error: ErrorInfo | None = None

    def on_transcript(self, run: ReplyRun, transcript: Transcript) -> None:
        self.events.append("transcript")

    def on_answering(self, run: ReplyRun) -> None:
        self.events.append("answering")

    async def on_content(self, run: ReplyRun, delta: TextDelta | AudioDelta) -> None:
        self.events.append("text" if isinstance(delta, TextDelta) else "audio")

    async def on_done(self, run: ReplyRun, done: Done) -> None:
        self.events.append("done")

    def on_failed(self, run: ReplyRun, error: ErrorInfo) -> None:
        self.events.append("failed")
        self.error = error


def utterance(seconds: float = 1.0) -> Utterance:
    sound = Utterance("utt_1", 16000)
    sound.append(np.arange(int(seconds * 16000), dtype=np.float32))
    return sound


@in_virtual_time
async def test_the_answer_waits_and_the_transcript_does_not() -> None:
    log, client = Log(), ScriptedClient(Script(answer="One two."))
    run = ReplyRun(client, SPOKEN, utterance(), log)
    run.end_input()
    await asyncio.sleep(1)
    assert log.events == ["transcript", "answering"]
    assert client.replies[0].taken == 2  # the transcript, and one piece in hand
    run.release("resp_1", 0)
    await run.closed()
    assert log.events == ["transcript", "answering", "text", "audio", "text", "audio", "done"]


@in_virtual_time
async def test_sound_is_sent_from_the_beginning_then_as_it_grows_until_the_end() -> None:
    log, client, sound = Log(), ScriptedClient(), utterance()
    run = ReplyRun(client, SPOKEN, sound, log)
    await asyncio.sleep(1)
    sound.append(np.ones(10, np.float32))
    await asyncio.sleep(1)
    run.end_input()
    sound.append(np.ones(99, np.float32))  # belongs to a later reply
    await asyncio.sleep(1)
    [reply] = client.replies
    assert len(reply.sound) == 16010
    assert reply.ended.is_set()
    run.abort()
    await run.closed()


@in_virtual_time
async def test_after_an_abort_nothing_is_reported_even_by_a_reply_that_does_not_stop() -> None:
    class Deaf(ScriptedReply):
        async def abort(self) -> None:
            await asyncio.sleep(0.5)

        async def __aiter__(self) -> AsyncIterator[ReplyEvent]:
            while True:
                await asyncio.sleep(0.01)
                yield TextDelta("more")

    class Client(ScriptedClient):
        async def open(self, request: GenerateRequest) -> ScriptedReply:
            return Deaf(request, Script(), "req_0")

    log = Log()
    run = ReplyRun(Client(), TYPED, None, log)
    run.release("resp_1", 0)
    await asyncio.sleep(0.1)
    assert "text" in log.events
    run.abort()
    reported = list(log.events)
    await run.closed()
    await asyncio.sleep(1)
    assert log.events == reported


@in_virtual_time
async def test_a_reply_that_is_aborted_while_it_opens_is_aborted_when_it_has_opened() -> None:
    class Slow(ScriptedClient):
        async def open(self, request: GenerateRequest) -> ScriptedReply:
            await asyncio.sleep(1)
            return await super().open(request)

    log, client = Log(), Slow()
    run = ReplyRun(client, TYPED, None, log)
    await asyncio.sleep(0.1)
    run.abort()
    await run.closed()
    assert client.replies[0].aborted.is_set()
    assert log.events == []


@in_virtual_time
async def test_an_iteration_that_just_ends_is_a_failure() -> None:
    log, client = Log(), ScriptedClient(Script(gate=asyncio.Event()))
    run = ReplyRun(client, TYPED, None, log)
    await asyncio.sleep(0.1)
    client.replies[0].aborted.set()  # not by us: the pipeline was stopped
    await run.closed()
    assert log.error is not None
    assert (log.error.code, log.error.retryable) == ("aborted", True)


@pytest.mark.parametrize("where", ["open", "send_audio"])
def test_an_unexpected_fault_is_a_failure_and_the_reply_is_aborted(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenReply(ScriptedReply):
        async def send_audio(self, samples: np.ndarray) -> None:
            raise ZeroDivisionError

    class Broken(ScriptedClient):
        async def open(self, request: GenerateRequest) -> ScriptedReply:
            if where == "open":
                raise ZeroDivisionError
            reply = BrokenReply(request, Script(), "req_0")
            self.replies.append(reply)
            return reply

    @in_virtual_time
    async def scenario() -> None:
        log, client = Log(), Broken()
        run = ReplyRun(client, SPOKEN, utterance(), log)
        await run.closed()
        assert log.error is not None
        assert log.error.code == "internal_error"
        assert all(reply.aborted.is_set() for reply in client.replies)

    scenario()
    assert "ZeroDivisionError" in caplog.text
