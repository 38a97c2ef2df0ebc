"""The transports of ``docs/adding-a-transport.md``, built from the blocks on that page, carry conversations."""

from __future__ import annotations

import asyncio
import json
import re
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.caller import eventually, services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import Script, ScriptedClient
from tests.support.silero import silero
from tests.support.speech import recording
from voice_omni.audio.pcm import decode_pcm16, encode_pcm16
from voice_omni.server.sessions import Sessions
from voice_omni.session.silero import SileroModel

__all__ = ["silero"]

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-transport.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\w+)\.py -->\n```python\n(.*?)```", PAGE, re.DOTALL))
RATE = 16_000
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def module(name: str) -> types.ModuleType:
    built = types.ModuleType(name)
    exec(compile(FILES[name], f"adding-a-transport.md:{name}.py", "exec"), built.__dict__)
    return built


@asynccontextmanager
async def connected(serve: Callable[..., Awaitable[None]]) -> AsyncIterator[Streams]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    yield reader, writer
    writer.close()
    server.close()
    await server.wait_closed()


async def test_events_go_over_lines(silero: SileroModel) -> None:
    lines, sessions = module("lines"), Sessions(services(ScriptedClient(), silero))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with sessions.admit() as (session, outbox):
            await lines.run(reader, writer, session, outbox)

    async with connected(serve) as (reader, writer):
        writer.write(b'{"type": "response.create"}\n')
        kinds = []
        async with asyncio.timeout(PATIENCE_S):
            while not kinds or kinds[-1] != "response.done":
                kinds.append(json.loads(await reader.readline())["type"])
        assert kinds[0] == "session.created"
        assert "response.output_audio.delta" in kinds
        assert len(sessions) == 1
    await eventually(lambda: not len(sessions))


async def test_a_session_that_ends_closes_the_connection(silero: SileroModel) -> None:
    lines, sessions = module("lines"), Sessions(services(ScriptedClient(), silero))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with sessions.admit() as (session, outbox):
            await lines.run(reader, writer, session, outbox)

    async with connected(serve) as (reader, _):
        await reader.readline()
        sessions.drain()
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
    assert not len(sessions)


async def test_a_line_of_sound_asks_is_answered_and_interrupts(silero: SileroModel) -> None:
    line, client = module("line"), ScriptedClient(Script(answer="word " * 20, word_seconds=0.5))
    sessions = Sessions(services(client, silero))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sink = line.Line(writer)
        with sessions.admit(sink=sink) as (session, outbox):
            await line.run(reader, sink, session, outbox)

    each = recording("question-10")
    question = each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]
    async with connected(serve) as (reader, writer):

        async def until(loud: bool) -> int:
            """How many frames come before one with sound in it, or the first of 300 ms of silence."""
            waited, quiet = 0, 0
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    frame = decode_pcm16(await reader.readexactly(2 * RATE // 50))
                    has_sound = bool(np.abs(frame).max() > 0.01)
                    quiet = 0 if has_sound else quiet + 1
                    if has_sound if loud else quiet > 15:
                        return waited
                    waited += 1

        writer.write(encode_pcm16(np.concatenate([question, np.zeros(RATE, np.float32)])))
        await until(loud=True)
        await asyncio.sleep(1.0)
        writer.write(encode_pcm16(question))
        frames = await until(loud=False)
        assert frames < 250, "ten seconds of words were not interrupted"
        assert len(client.replies) >= 2
        assert client.replies[0].aborted.is_set() or not client.replies[0].finished
    await eventually(lambda: not len(sessions))
    assert not client.alive


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_blocks_are_complete(name: str) -> None:
    assert callable(module(name).run)
