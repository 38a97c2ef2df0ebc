"""The running server against random messages, forbidden frames and bytes that are no requests."""

from __future__ import annotations

import logging
import random

import pytest
from websockets.asyncio.client import connect

from tests.fuzz.mutations import KINDS
from tests.fuzz.session import Tally, misbehaving
from tests.fuzz.variants import VARIANTS
from tests.fuzz.wire import FRAMES, REQUESTS, fuzz_connection, fuzz_frames, fuzz_http
from tests.support.caller import Caller, eventually, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel


def _no_faults(caplog: pytest.LogCaptureFixture) -> None:
    """A client's fault is no exception and no error of the server's."""
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []


async def _healthy(address: str) -> None:
    async with connect(f"ws://{address}/v1/realtime") as connection:
        caller = Caller(connection)
        await caller.send("session.update", session={"type": "realtime"})
        await caller.until("session.updated")


async def test_random_messages(silero: SileroModel, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(1)
    client = misbehaving(rng)
    app = create_app(services(client, silero))
    tally = Tally()
    async with serving(app) as address:
        for variant in VARIANTS.values():
            await fuzz_connection(address, 60, rng, tally, variant)
        await _healthy(address)
        await eventually(lambda: len(app.state.sessions) == 0 and client.alive == [])
    _no_faults(caplog)
    assert set(tally.messages) == set(KINDS)
    assert not tally.closes


@pytest.mark.parametrize("name", FRAMES)
async def test_forbidden_frames(silero: SileroModel, caplog: pytest.LogCaptureFixture, name: str) -> None:
    codes, make = FRAMES[name]
    app = create_app(services(ScriptedClient(), silero))
    async with serving(app) as address:
        code = await fuzz_frames(address, make(random.Random(0)), Tally())
        # What the client was still sending can make the connection break before it has read why.
        assert code in codes.split() or (len(make(random.Random(0))) > 100_000 and code == "hung up")
        await _healthy(address)
        await eventually(lambda: len(app.state.sessions) == 0)
    _no_faults(caplog)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
async def test_bytes_that_are_no_requests(silero: SileroModel, caplog: pytest.LogCaptureFixture, number: int) -> None:
    rng = random.Random(number)
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        for _ in range(5):
            await fuzz_http(address, REQUESTS[number](rng), Tally())
        await _healthy(address)
    _no_faults(caplog)
