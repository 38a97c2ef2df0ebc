"""Ephemeral keys over HTTP, and the sessions that they open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.caller import Caller, request_json, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import Access, Services, create_app
from voice_omni.server.auth_keys import load_keys
from voice_omni.session.silero import SileroModel

KEY = "sk-right-0123456789"
BEARER = {"Authorization": f"Bearer {KEY}"}
PATH = "/v1/realtime/client_secrets"
SESSION: dict[str, Any] = {
    "type": "realtime",
    "model": "gpt-realtime",
    "instructions": "Be brief.",
    "audio": {"input": {"turn_detection": {"threshold": 0.8}}, "output": {"voice": "other"}},
}


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def closed(silero: SileroModel, clock: Clock) -> Services:
    return services(ScriptedClient(), silero, access=Access(load_keys(KEY, None)), wall_clock=clock)


async def _created(address: str, value: str, *, browser: bool = False) -> dict[str, Any]:
    offered = ["realtime", f"openai-insecure-api-key.{value}"] if browser else None
    headers = {} if browser else {"Authorization": f"Bearer {value}"}
    async with connect(f"ws://{address}/v1/realtime", additional_headers=headers, subprotocols=offered) as connection:
        return await Caller(connection).until("session.created")


async def test_a_session_begins_as_its_key_says(closed: Services) -> None:
    async with serving(create_app(closed)) as address:
        wanted = {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": SESSION}
        status, body, _ = await request_json(address, PATH, wanted, headers=BEARER)
        assert status == 200
        assert body["value"].startswith("ek_")
        assert body["expires_at"] == 1_700_000_060
        effective = body["session"]
        assert effective["instructions"] == "Be brief."
        assert effective["audio"]["input"]["turn_detection"]["threshold"] == 0.8
        assert effective["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        for browser in (False, True):
            session = (await _created(address, body["value"], browser=browser))["session"]
            for volatile in ("id", "expires_at"):
                session.pop(volatile)
            assert session.items() <= effective.items()
        assert "instructions" in (await _created(address, KEY))["session"]
        assert (await _created(address, KEY))["session"]["instructions"] == ""


async def test_the_defaults_are_ten_minutes_and_the_servers_session(closed: Services) -> None:
    async with serving(create_app(closed)) as address:
        for body in (None, {}, {"session": None}):
            status, answer, _ = await request_json(address, PATH, body, headers=BEARER, method="POST")
            assert status == 200
            assert answer["expires_at"] == 1_700_000_600
            assert answer["session"]["audio"]["output"]["voice"] == "default"


async def test_an_expired_key_opens_nothing_but_the_session_that_it_opened_goes_on(
    closed: Services, clock: Clock
) -> None:
    async with serving(create_app(closed)) as address:
        _, body, _ = await request_json(address, PATH, {"expires_after": {"seconds": 10}}, headers=BEARER)
        headers = {"Authorization": f"Bearer {body['value']}"}
        async with connect(f"ws://{address}/v1/realtime", additional_headers=headers) as connection:
            caller = Caller(connection)
            await caller.until("session.created")
            clock.now += 10
            with pytest.raises(InvalidStatus) as refused:
                await _created(address, body["value"])
            assert refused.value.response.status_code == 401
            await caller.send("session.update", session={"type": "realtime"})
            await caller.until("session.updated")


async def test_an_ephemeral_key_talks_and_does_nothing_else(closed: Services) -> None:
    async with serving(create_app(closed)) as address:
        _, body, _ = await request_json(address, PATH, {}, headers=BEARER)
        headers = {"Authorization": f"Bearer {body['value']}"}
        for path, sent in ((PATH, {}), ("/v1/models", None)):
            status, answer, _ = await request_json(address, path, sent, headers=headers)
            assert (status, answer["error"]["code"]) == (403, "insufficient_permissions")
        assert (await request_json(address, "/health", headers=headers))[1] == {"status": "ready"}


async def test_an_unknown_ephemeral_key_is_refused_even_where_no_key_is_asked_for(silero: SileroModel) -> None:
    """Its session is not known, so that letting it in would mean another session than it was made for."""
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        with pytest.raises(InvalidStatus) as refused:
            await _created(address, "ek_0123456789")
        assert refused.value.response.status_code == 401
        _, body, _ = await request_json(address, PATH, {"session": SESSION})
        assert (await _created(address, body["value"]))["session"]["instructions"] == "Be brief."


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"{", 400, "invalid_json", None),
        (b'{"session": {"a": ' + b"[" * 100_000, 400, "invalid_json", None),
        (b"\xff\xfe", 400, "invalid_json", None),
        ([], 400, "invalid_value", None),
        ({"expires_after": {"seconds": 9}}, 400, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": 7201}}, 400, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"anchor": "used_at"}}, 400, "invalid_value", "expires_after.anchor"),
        ({"typo": 1}, 400, "unknown_parameter", "typo"),
        ({"session": {"typo": 1}}, 400, "unknown_parameter", "session.typo"),
        ({"session": {"audio": {"output": {"voice": "nobody"}}}}, 400, "invalid_value", "session.audio.output.voice"),
        ({"session": 1}, 400, "invalid_value", "session"),
        (b'{"session": {"instructions": "' + b"x" * 300_000 + b'"}}', 413, "request_too_large", None),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(
    closed: Services, body: Any, status: int, code: str, param: str | None
) -> None:
    async with serving(create_app(closed)) as address:
        got, answer, _ = await request_json(address, PATH, body, headers=BEARER)
    assert (got, answer["error"]["code"], answer["error"]["param"]) == (status, code, param)


async def test_the_older_route_speaks_the_older_dialect(closed: Services) -> None:
    body = {
        "instructions": "Be brief.",
        "voice": "other",
        "modalities": ["text"],
        "input_audio_format": "g711_ulaw",
        "client_secret": {"expires_after": {"seconds": 60}},
    }
    async with serving(create_app(closed)) as address:
        _, answer, _ = await request_json(address, "/v1/realtime/sessions", body, headers=BEARER)
        assert answer["client_secret"]["expires_at"] == 1_700_000_060
        for name in ("instructions", "voice", "modalities", "input_audio_format"):
            assert answer[name] == body[name]
        session = (await _created(address, answer["client_secret"]["value"], browser=True))["session"]
        assert session["instructions"] == "Be brief."
        assert session["audio"]["output"]["voice"] == "other"
        assert session["audio"]["input"]["format"]["type"] == "audio/pcmu"
        body = {"client_secret": {"expires_after": {"seconds": 1}}}
        status, answer, _ = await request_json(address, "/v1/realtime/sessions", body, headers=BEARER)
        assert (status, answer["error"]["param"]) == (400, "client_secret.expires_after.seconds")


async def test_a_transcription_session_can_be_made_beforehand(closed: Services) -> None:
    wanted = {"type": "transcription", "audio": {"input": {"transcription": {"language": "en"}}}}
    async with serving(create_app(closed)) as address:
        _, answer, _ = await request_json(address, PATH, {"session": wanted}, headers=BEARER)
        assert answer["session"]["object"] == "realtime.transcription_session"
        session = (await _created(address, answer["value"]))["session"]
        assert session["type"] == "transcription"
        assert session["audio"]["input"]["transcription"]["language"] == "en"
        path = "/v1/realtime/transcription_sessions"
        body = {"input_audio_transcription": {"language": "en"}}
        _, answer, _ = await request_json(address, path, body, headers=BEARER)
        assert answer["input_audio_transcription"]["language"] == "en"
        session = (await _created(address, answer["client_secret"]["value"]))["session"]
        assert session["type"] == "transcription"


async def test_too_many_are_refused_until_some_expire(
    closed: Services, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice_omni.server.app.MAX_SECRETS", 2)
    async with serving(create_app(closed)) as address:
        for expected in (200, 200, 429):
            status, answer, _ = await request_json(address, PATH, {}, headers=BEARER)
            assert status == expected
        assert answer["error"]["code"] == "rate_limit_exceeded"
        clock.now += 600
        assert (await request_json(address, PATH, {}, headers=BEARER))[0] == 200


async def test_a_browser_with_an_expired_key_is_closed_with_1008(closed: Services) -> None:
    offered = ["realtime", "openai-insecure-api-key.ek_gone"]
    async with (
        serving(create_app(closed)) as address,
        connect(f"ws://{address}/v1/realtime", subprotocols=offered) as connection,
    ):
        assert json.loads(await connection.recv())["error"]["code"] == "invalid_api_key"
        with pytest.raises(ConnectionClosed) as closing:
            await connection.recv()
    assert closing.value.rcvd is not None
    assert closing.value.rcvd.code == 1008
