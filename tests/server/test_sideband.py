"""``?call_id=``: to listen in on a call, which must be there; nobody gets a conversation of his own instead."""

from __future__ import annotations

import asyncio
import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.caller import services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel

PATH = "/v1/realtime?call_id=rtc_nowhere"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer any"}])
async def test_an_unknown_call_is_refused_at_the_handshake(silero: SileroModel, headers: dict[str, str]) -> None:
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app) as address:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{address}{PATH}", additional_headers=headers)
        assert len(app.state.sessions) == 0
    response = refused.value.response
    assert response.status_code == 404
    error = json.loads(response.body or b"")["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "call_id_not_found", "call_id")


async def test_a_browser_is_told_in_an_event(silero: SileroModel) -> None:
    async with (
        serving(create_app(services(ScriptedClient(), silero))) as address,
        connect(f"ws://{address}{PATH}", subprotocols=["realtime"]) as connection,  # type: ignore[list-item]
    ):
        async with asyncio.timeout(PATIENCE_S):
            event = json.loads(await connection.recv())
            with pytest.raises(ConnectionClosed):
                await connection.recv()
    assert (event["type"], event["error"]["code"]) == ("error", "call_id_not_found")
    assert connection.close_code == 1008
