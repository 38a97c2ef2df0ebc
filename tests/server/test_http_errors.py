"""Errors over HTTP have OpenAI's shape, whatever is wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.support.caller import request_json, services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel
from voice_omni.transports import protocols


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("POST", "/v1/nowhere", 404, "not_found"),
        ("GET", "/v1/realtime", 404, "not_found"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/realtime/client_secrets", 405, "method_not_allowed"),
        ("GET", "/v1/models/gpt-realtime", 404, "model_not_found"),
    ],
)
async def test_shape(silero: SileroModel, method: str, path: str, status: int, code: str) -> None:
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        got, body, _ = await request_json(address, path, method=method)
    assert (got, body["error"]["code"], body["error"]["type"]) == (status, code, "invalid_request_error")
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]


async def test_a_fault_of_the_server_is_told_without_its_details(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("inner workings")

    async with serving(create_app(replace(services(ScriptedClient(), silero), health=broken))) as address:
        status, body, _ = await request_json(address, "/health")
    assert (status, body["error"]["type"], body["error"]["code"]) == (500, "server_error", "internal_error")
    assert "inner workings" not in str(body)
    assert "inner workings" in caplog.text


async def _until_closed(address: str, *pieces: bytes, pause: float = 0.0) -> bytes:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(pause)
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"GET /health HTTP/1.1\r\n"],
        [b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"],
        [b"POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", b"{"],
        [b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /health HTTP/1.1\r\n"],
    ],
    ids=["nothing", "headers", "handshake", "body", "second request"],
)
async def test_a_request_that_does_not_arrive_is_not_waited_for(
    silero: SileroModel, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]
) -> None:
    monkeypatch.setattr(protocols, "REQUEST_S", 0.2)
    async with serving(create_app(services(ScriptedClient(), silero)), timeout_keep_alive=60) as address:
        await _until_closed(address, *pieces, pause=0.05)


async def test_headers_without_end_are_refused(silero: SileroModel) -> None:
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000)
        assert await reader.readline() == b"HTTP/1.1 400 Bad Request\r\n"
        writer.close()
