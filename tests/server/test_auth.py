"""Who is let in: over HTTP, over WebSocket with headers, and from browsers, against a running server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.caller import Caller, request_json, services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import Access, Services, create_app
from voice_omni.server.auth_keys import load_keys
from voice_omni.session.silero import SileroModel

KEY = "sk-right-0123456789"
BEARER = {"Authorization": f"Bearer {KEY}"}
WRONG = {"Authorization": "Bearer sk-wrong-0123456789"}


@pytest.fixture
def closed(silero: SileroModel) -> Services:
    """A server with keys."""
    return services(ScriptedClient(), silero, access=Access(load_keys(f"other={KEY}2,phone={KEY}", None)))


@pytest.fixture
def opened(silero: SileroModel) -> Services:
    """A server without."""
    return services(ScriptedClient(), silero)


@pytest.mark.parametrize("headers", [{}, WRONG, {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"}])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/scripted", "/v1/nowhere", "/index.html", "/docs"])
async def test_without_the_key_every_route_answers_401(closed: Services, headers: dict[str, str], path: str) -> None:
    async with serving(create_app(closed)) as address:
        status, body, shown = await request_json(address, path, headers=headers)
    assert status == 401
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["code"] == "invalid_api_key"
    assert shown["www-authenticate"] == "Bearer"
    assert "sk-" not in json.dumps(body)


async def test_with_the_key_they_answer(closed: Services) -> None:
    async with serving(create_app(closed)) as address:
        status, body, _ = await request_json(address, "/v1/models", headers={"Authorization": f"bearer   {KEY}"})
        assert status == 200
        assert body["data"][0]["id"] == "scripted"
        status, body, _ = await request_json(address, "/v1/nowhere", headers=BEARER)
        assert (status, body["error"]["code"]) == (404, "not_found")


async def test_strangers_learn_whether_it_is_healthy_and_no_more(closed: Services) -> None:
    async with serving(create_app(closed)) as address:
        for headers in ({}, WRONG):
            assert (await request_json(address, "/health", headers=headers))[:2] == (200, {"status": "ready"})
        _, body, _ = await request_json(address, "/health", headers=BEARER)
    assert body["model"] == "scripted"


async def _created(address: str, headers: Mapping[str, str], offered: list[str] | None = None) -> dict[str, Any]:
    async with connect(
        f"ws://{address}/v1/realtime?model=any", additional_headers=headers, subprotocols=offered
    ) as connection:
        return await Caller(connection).until("session.created")


@pytest.mark.parametrize("headers", [{}, WRONG])
async def test_a_client_with_headers_is_refused_at_the_handshake(closed: Services, headers: dict[str, str]) -> None:
    async with serving(create_app(closed)) as address:
        with pytest.raises(InvalidStatus) as refused:
            await _created(address, headers)
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body)["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("key", ["openai-insecure-api-key.sk-wrong-0123456789", "openai-insecure-api-key.", None])
async def test_a_browser_is_told_in_an_event_and_closed_with_1008(closed: Services, key: str | None) -> None:
    """It cannot see the status of a handshake that failed."""
    offered = ["realtime", key] if key else ["realtime"]
    async with (
        serving(create_app(closed)) as address,
        connect(f"ws://{address}/v1/realtime", subprotocols=offered) as connection,
    ):
        assert connection.subprotocol == "realtime"
        event = json.loads(await connection.recv())
        assert event["error"]["code"] == "invalid_api_key"
        with pytest.raises(ConnectionClosed) as closing:
            await connection.recv()
    assert closing.value.rcvd is not None
    assert closing.value.rcvd.code == 1008


async def test_the_right_key_opens_a_session_from_anywhere(closed: Services) -> None:
    """A key is no cookie: a page that has it has been given it, so its origin does not matter."""
    async with serving(create_app(closed)) as address:
        for headers, offered in (
            (BEARER, None),
            ({**BEARER, "Origin": "https://app.example"}, None),
            ({}, ["realtime", f"openai-insecure-api-key.{KEY}"]),
            (
                {"Origin": "https://app.example"},
                [f"openai-insecure-api-key.{KEY}", "realtime", "openai-beta.realtime-v1"],
            ),
        ):
            assert (await _created(address, headers, offered))["type"] == "session.created"


async def test_without_keys_any_key_will_do(opened: Services) -> None:
    """Client libraries insist on sending one."""
    async with serving(create_app(opened)) as address:
        assert (await request_json(address, "/v1/models", headers=WRONG))[0] == 200
        await _created(address, WRONG)
        await _created(address, {}, ["realtime", "openai-insecure-api-key.anything"])


async def test_without_keys_a_foreign_page_cannot_talk_behind_its_visitors_back(opened: Services) -> None:
    evil = {"Origin": "https://evil.example"}
    async with serving(create_app(opened)) as address:
        with pytest.raises(InvalidStatus) as refused:
            await _created(address, evil)
        assert refused.value.response.status_code == 403
        assert json.loads(refused.value.response.body)["error"]["code"] == "origin_not_allowed"
        status, _, _ = await request_json(address, "/v1/realtime/client_secrets", {}, headers=evil)
        assert status == 403
        await _created(address, {"Origin": "http://localhost:5173"})
        await _created(address, {"Origin": f"http://{address}"})


async def test_browsers_may_call_from_this_machine_and_from_allowed_pages(silero: SileroModel) -> None:
    access = Access(load_keys(KEY, None), ("https://app.example",))
    async with serving(create_app(services(ScriptedClient(), silero, access=access))) as address:
        for origin, allowed in (
            ("https://app.example", True),
            ("http://localhost:5173", True),
            ("https://evil.example", False),
            ("http://localhost.evil.example", False),
        ):
            asked = {
                "Origin": origin,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, content-type",
            }
            _, _, shown = await request_json(address, "/v1/realtime/client_secrets", headers=asked, method="OPTIONS")
            assert (shown.get("access-control-allow-origin") == origin) is allowed
            # An error is an answer too, which the page has to be able to read.
            status, _, shown = await request_json(address, "/v1/models", headers={"Origin": origin})
            assert status == 401
            assert (shown.get("access-control-allow-origin") == origin) is allowed
            assert "access-control-allow-credentials" not in shown


@pytest.mark.parametrize(
    "headers",
    [
        "authorization, x-openai-agents-sdk",  # @openai/agents-realtime, for a call
        "authorization, content-type, openai-organization, openai-project, x-stainless-arch, x-stainless-lang, "
        "x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, "
        "x-stainless-runtime-version, x-stainless-timeout",  # openai
    ],
)
async def test_client_libraries_in_a_browser_may_send_headers_of_their_own(headers: str, closed: Services) -> None:
    asked = {
        "Origin": "http://localhost:5173",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": headers,
    }
    async with serving(create_app(closed)) as address:
        status, _, shown = await request_json(address, "/v1/realtime/calls", headers=asked, method="OPTIONS")
        assert status == 200
        allowed = {name.strip() for name in shown["access-control-allow-headers"].lower().split(",")}
        assert {name.strip() for name in headers.split(",")} <= allowed


async def test_refusals_do_not_count_as_sessions(closed: Services) -> None:
    app = create_app(closed)
    async with serving(app) as address:
        for _ in range(40):
            with pytest.raises(InvalidStatus):
                await _created(address, WRONG)
        assert len(app.state.sessions) == 0
        await asyncio.wait_for(_created(address, BEARER), PATIENCE_S)
