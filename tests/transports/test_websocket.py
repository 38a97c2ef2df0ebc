"""The server as clients meet it: a real socket, a real WebSocket library, a scripted pipeline behind."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import suppress

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.support.caller import Caller, eventually, services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import Script, ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from tests.support.talk import RATE
from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.server import create_app
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.transports.websocket import MAX_MESSAGE_BYTES


def _url(address: str) -> str:
    return f"ws://{address}/v1/realtime?model=any"


def _question() -> Samples:
    return recording("question-10").samples(RATE)


async def _closed(connection: ClientConnection, *messages: str) -> int | None:
    """Send, then read until the server closes; its code."""
    try:
        for message in messages:
            await connection.send(message)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await connection.recv()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


async def test_a_spoken_turn(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with serving(create_app(services(client, silero))) as address, connect(_url(address)) as connection:
        caller = Caller(connection)
        created = await caller.until("session.created")
        assert created["session"]["model"] == "scripted"
        assert created["session"]["audio"]["output"]["voice"] == "default"
        await caller.say(_question())
        done = await caller.until("response.done")
        assert done["response"]["status"] == "completed"
        assert done["response"]["output"][0]["content"][0]["transcript"] == "The capital of France is Paris."
    assert client.alive == []


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["realtime", "openai-insecure-api-key.sk-secret", "openai-beta.realtime-v1"], "realtime"),
        (["openai-insecure-api-key.sk-secret", "realtime"], "realtime"),
        (None, None),
    ],
)
async def test_the_key_in_a_subprotocol_is_never_echoed(
    silero: SileroModel, offered: list[str] | None, chosen: str | None
) -> None:
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app) as address, connect(_url(address), subprotocols=offered) as connection:
        assert connection.subprotocol == chosen


async def test_bad_input_is_answered_and_survived(silero: SileroModel) -> None:
    client = ScriptedClient()
    async with serving(create_app(services(client, silero))) as address, connect(_url(address)) as connection:
        caller = Caller(connection)
        for bad in (b"\x00\x01", "", "{", "[]", '{"type": "nonsense"}', '{"type": 1}', "[" * 50_000, '"\\ud800"'):
            await connection.send(bad)
            error = (await caller.until("error"))["error"]
            assert error["type"] == "invalid_request_error"
        await caller.send("input_audio_buffer.append", audio="@@@", event_id="mine")
        assert (await caller.until("error"))["error"]["event_id"] == "mine"
        await caller.say(_question())
        await caller.until("response.done")


async def test_a_message_beyond_the_limit_closes_this_connection_alone(silero: SileroModel) -> None:
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app) as address, connect(_url(address)) as good, connect(_url(address)) as bad:
        assert await _closed(bad, "x" * (MAX_MESSAGE_BYTES + 1)) == 1009
        caller = Caller(good)
        await caller.say(_question())
        await caller.until("response.done")


async def test_one_session_too_many_is_told_to_come_back_and_a_free_place_is_given_again(silero: SileroModel) -> None:
    app = create_app(services(ScriptedClient(), silero, max_sessions=1))
    async with serving(app) as address:
        async with connect(_url(address)) as connection:
            await Caller(connection).until("session.created")
            async with connect(_url(address), subprotocols=["realtime"]) as refused:
                event = json.loads(await refused.recv())
                assert event["error"]["code"] == "overloaded"
                assert await _closed(refused) == 1013
        await eventually(lambda: len(app.state.sessions) == 0)
        async with connect(_url(address)) as connection:
            await Caller(connection).until("session.created")


async def test_before_the_pipeline_is_ready_nobody_is_let_in(silero: SileroModel) -> None:
    app = create_app(services(ScriptedClient(), silero, ready=False))
    async with serving(app) as address, connect(_url(address)) as connection:
        assert (await Caller(connection).until("error"))["error"]["code"] == "not_ready"
        assert await _closed(connection) == 1013


async def test_draining_asks_everybody_to_leave_and_lets_nobody_in(silero: SileroModel) -> None:
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app) as address, connect(_url(address)) as connection:
        caller = Caller(connection)
        await caller.until("session.created")
        app.state.sessions.drain()
        assert await _closed(connection) == 1001
        async with connect(_url(address)) as late:
            assert (await Caller(late).until("error"))["error"]["code"] == "server_shutting_down"


class _FaultyOnce(SileroModel):
    """Breaks on the first window that it is given."""

    def __init__(self, sound: SileroModel) -> None:
        self._sound = sound
        self._broken = False

    def run(self, window: Samples, state: Samples) -> tuple[float, Samples]:
        if not self._broken:
            self._broken = True
            raise ZeroDivisionError
        return self._sound.run(window, state)


async def test_a_fault_in_one_session_closes_it_cleanly_and_no_other(silero: SileroModel) -> None:
    app = create_app(services(ScriptedClient(), _FaultyOnce(silero)))
    async with serving(app) as address, connect(_url(address)) as bad, connect(_url(address)) as good:
        append = {"type": "input_audio_buffer.append", "audio": base64.b64encode(encode_pcm16(_question())).decode()}
        assert await _closed(bad, json.dumps(append)) == 1011
        caller = Caller(good)
        await caller.say(_question())
        await caller.until("response.done")


async def test_fifty_clients_that_leave_at_any_moment_leave_nothing_behind(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=" ".join(["word"] * 100)))
    app = create_app(services(client, silero))
    async with serving(app) as address:
        question = _question()
        for number in range(50):
            async with connect(_url(address)) as connection:
                caller = Caller(connection)
                await caller.say(question[: (number % 5 + 1) * len(question) // 5], chunk=12_000)
                if number % 5 == 4:
                    await caller.until("response.output_audio.delta")
                if number % 2:
                    connection.transport.abort()
        async with connect(_url(address)) as connection:
            caller = Caller(connection)
            await caller.say(question)
            await caller.until("response.output_audio.delta")
            assert {event["type"] for event in caller.events}.isdisjoint({"error"})
            starts = [event for event in caller.events if event["type"] == "response.created"]
            assert len(starts) == 1
        await eventually(lambda: len(app.state.sessions) == 0 and client.alive == [])


async def test_a_listener_who_stops_reading_stops_his_own_talker_and_nobody_elses(silero: SileroModel) -> None:
    def script(request: object, number: int) -> Script:
        return Script(answer=" ".join(["word"] * 4000), word_seconds=0.5) if number == 0 else Script()

    client = ScriptedClient(script)
    options = SessionOptions(max_lead_ms=10_000_000)
    app = create_app(services(client, silero, options=options))
    async with serving(app) as address, connect(_url(address), max_queue=1) as deaf, connect(_url(address)) as good:
        await Caller(deaf).say(_question())
        caller = Caller(good)
        for _ in range(3):
            await caller.say(np.concatenate([_question(), np.zeros(RATE, np.float32)]))
            await caller.until("response.done")
        assert 0 < client.replies[0].taken < 2000  # of 8001: what the sockets between hold, and no more
        deaf.transport.abort()


async def test_timings_by_query_parameter(silero: SileroModel) -> None:
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app) as address, connect(f"{_url(address)}&include=timings") as connection:
        caller = Caller(connection)
        await caller.say(_question())
        assert "stages" in (await caller.until("response.done"))["response"]["timings"]


async def test_connections_beyond_the_limit_are_closed_at_once_and_those_within_go_on(silero: SileroModel) -> None:
    """Who opens connections and says nothing must not take the files that the server needs for everybody else."""
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app, limit_concurrency=5) as address, connect(f"ws://{address}/v1/realtime") as talking:
        host, port = address.split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(8)]
        beyond = [reader for reader, _ in idle[3:]]
        async with asyncio.timeout(PATIENCE_S):
            for reader in beyond:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        assert not any(reader.at_eof() for reader, _ in idle[:3])
        await talking.send(json.dumps({"type": "session.update", "session": {"type": "realtime"}}))
        async with asyncio.timeout(PATIENCE_S):
            while json.loads(await talking.recv())["type"] != "session.updated":
                pass
        for _, writer in idle[:3]:
            writer.close()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with suppress(OSError, InvalidHandshake):
                    async with connect(f"ws://{address}/v1/realtime"):
                        break
