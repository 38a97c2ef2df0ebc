"""A server as its settings make it: keys, the limits of its connections, and its end."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.patience import PATIENCE_S
from tests.support.pipelines import INLINE, toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli.realtime_client import KEY_VARIABLE, open_session
from voice_omni.cli.serving import Serving, serving
from voice_omni.proto.errors import OmniError
from voice_omni.transports.websocket import MAX_MESSAGE_BYTES

KEY = "sk-right-0123456789"


def serve(**server: Any) -> AbstractAsyncContextManager[Serving]:
    settings = toy_settings(processes=INLINE)
    changed = msgspec.structs.replace(settings.server, port=0, **server)
    return serving(PIPELINE, msgspec.structs.replace(settings, server=changed))


async def test_keys_from_a_file_open_it_and_the_command_sends_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"phone={KEY}\n")
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    async with serve(api_keys_file=str(path)) as running:
        with pytest.raises(OmniError, match=r"status 401.*invalid_api_key") as refused:
            async with open_session(running.url):
                pass
        assert refused.value.code == "connection_refused"
        async with open_session(running.url, KEY) as client:
            await client.send("session.update", session={"type": "realtime"})
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        async with open_session(running.url):
            pass


async def test_bad_keys_are_known_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match="cannot read the API keys"):
        async with serve(api_keys_file=str(tmp_path / "missing")):
            pass


async def _close_code(connection: ClientConnection, *messages: str) -> int | None:
    """Send, then read until the server closes."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            for message in messages:
                await connection.send(message)
            while True:
                await connection.recv()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


async def test_its_connections_have_the_transports_limits() -> None:
    async with serve() as running:
        connection = await connect(running.url.replace("http", "ws") + "/v1/realtime", compression="deflate")
        assert connection.protocol.extensions == []
        assert await _close_code(connection, "x" * (MAX_MESSAGE_BYTES + 1)) == 1009


async def test_at_its_end_everybody_is_told_to_come_back_elsewhere() -> None:
    async with serve() as running:
        connections = [await connect(running.url.replace("http", "ws") + "/v1/realtime") for _ in range(3)]
        for connection in connections:
            assert json.loads(await connection.recv())["type"] == "session.created"
    for connection in connections:
        assert await _close_code(connection) == 1001
    assert running.task.done()
