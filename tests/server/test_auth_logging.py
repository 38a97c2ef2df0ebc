"""No key is ever logged, at any level, by this project or by the libraries that it runs on."""

from __future__ import annotations

import asyncio
import logging

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.caller import Caller, request_json, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import Access, create_app
from voice_omni.server.auth_keys import load_keys
from voice_omni.server.auth_logging import redacted
from voice_omni.session.silero import SileroModel

RIGHT = "sk-right-0123456789"
WRONG = "sk-wrong-0123456789"
IN_QUERY = "sk-query-0123456789"


@pytest.mark.parametrize("level", ["trace", "debug", "info"])
async def test_every_record_of_every_library_at_every_level(
    silero: SileroModel, caplog: pytest.LogCaptureFixture, level: str
) -> None:
    caplog.set_level(1)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "asyncio"):
        caplog.set_level(1, logger=name)
    # The client in this process logs what it sends; that is its own affair.
    quiet = logging.Logger("client", logging.CRITICAL)
    app = create_app(services(ScriptedClient(), silero, access=Access(load_keys(f"phone={RIGHT}", None))))
    async with serving(app, log_level=level, access_log=True) as address:
        url = f"ws://{address}/v1/realtime"
        secrets = "/v1/realtime/client_secrets"
        _, body, _ = await request_json(address, secrets, {}, headers={"Authorization": f"Bearer {RIGHT}"})
        ephemeral = body["value"]
        for key in (RIGHT, WRONG, ephemeral):
            bearer = {"Authorization": f"Bearer {key}", "api-key": key}
            await request_json(address, f"/v1/models?api_key={IN_QUERY}", headers=bearer)
            for headers, offered in ((bearer, None), ({}, ["realtime", f"openai-insecure-api-key.{key}"])):
                try:
                    async with connect(
                        f"{url}?api-key={IN_QUERY}&model=m",
                        additional_headers=headers,
                        subprotocols=offered,
                        logger=quiet,
                    ) as connection:
                        caller = Caller(connection)
                        await connection.recv()
                        if key != WRONG:
                            await caller.send("nonsense", api_key=key)
                            await caller.until("error")
                except InvalidStatus:
                    assert key == WRONG
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(f"GET /?k={IN_QUERY} HTTP/1.1\r\nAuthorization: Bearer {RIGHT}\r\nbroken\r\n\r\n".encode())
        await reader.read()
        writer.close()
    assert any(record.name.startswith("uvicorn") for record in caplog.records)
    assert "a session begins with the key 'phone'" in caplog.text
    text = caplog.text + "".join(f"{record.msg} {record.args} {record.__dict__}" for record in caplog.records)
    for key in (RIGHT, WRONG, IN_QUERY, ephemeral, ephemeral.removeprefix("ek_")):
        assert key not in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("> Authorization: Bearer sk-x", "> Authorization: [hidden]"),
        ("(b'authorization', b'Bearer sk-x'), (b'host', b'h')", "(b'authorization', b'[hidden]'), (b'host', b'h')"),
        (
            '1.2.3.4 - "WebSocket /v1/realtime?k=sk-x" [accepted]',
            '1.2.3.4 - "WebSocket /v1/realtime?[hidden]" [accepted]',
        ),
        ("Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-x", None),
        ("why? nobody knows", "why? nobody knows"),
        ("a session failed", "a session failed"),
    ],
)
def test_what_is_hidden_and_what_is_not(line: str, shown: str | None) -> None:
    assert "sk-x" not in redacted(line)
    if shown is not None:
        assert redacted(line) == shown
