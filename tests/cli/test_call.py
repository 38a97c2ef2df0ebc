"""Whole calls: the client of ``talk`` and a real server over a real socket, with a pipeline that needs no weights."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import msgspec
import numpy as np
import pytest

from tests.support.pipelines import INLINE, toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli.call import call_with_recording
from voice_omni.cli.realtime_client import RATE, open_session
from voice_omni.cli.serving import Serving, serving
from voice_omni.cli.sound_input import demo_recording, read_recording
from voice_omni.cli.turns import Conversation
from voice_omni.proto.errors import OmniError


def serve() -> AbstractAsyncContextManager[Serving]:
    """A server for one session at a time, on a free port, everything in this process."""
    settings = toy_settings(processes=INLINE)
    server = msgspec.structs.replace(settings.server, port=0, max_sessions=1)
    return serving(PIPELINE, msgspec.structs.replace(settings, server=server))


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serve() as running:
        yield running.url


async def test_a_recording_with_two_turns_gets_two_answers(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    turn = read_recording(str(demo_recording()))
    conversation = Conversation()
    async with open_session(url) as client:
        await call_with_recording(client, conversation, None, np.concatenate([turn, turn]), 10.0)
    assert [turn.status for turn in conversation.turns] == ["completed", "completed"]
    for answered in conversation.turns:
        assert answered.speech_end is not None
        assert answered.first_audible is not None
        assert answered.speech_end < answered.first_audible
        assert set(answered.timings["stages"]) == {stage.name for stage in PIPELINE.stages}
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [who for who, _ in lines] == ["you:", "agent:"] * 2
    assert all(words.rstrip().endswith("samples") for _, words in lines)
    assert len(conversation.playback.heard()) > 0


async def test_a_recording_of_silence_ends_without_an_answer(url: str) -> None:
    conversation = Conversation()
    async with open_session(url) as client:
        await call_with_recording(client, conversation, None, np.zeros(RATE // 2, np.float32), 1.0)
    assert not conversation.answered


async def test_a_server_that_is_full_says_so(url: str) -> None:
    async with open_session(url):
        with pytest.raises(OmniError, match="1 sessions, its maximum") as caught:
            async with open_session(url):
                pass
    assert caught.value.info.retryable


async def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(OmniError, match="is 'voice-omni serve' running there") as caught:
        async with open_session("http://127.0.0.1:1"):
            pass
    assert caught.value.code == "connection_failed"


async def test_a_server_that_leaves_ends_the_call_with_an_error() -> None:
    running = serve()
    url = (await running.__aenter__()).url
    async with open_session(url) as client:
        await running.__aexit__(None, None, None)
        with pytest.raises(OmniError, match="the server ended the session") as caught:
            await call_with_recording(client, Conversation(), None, np.zeros(RATE, np.float32), 1.0)
    assert caught.value.code == "connection_closed"
