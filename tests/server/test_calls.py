"""``/v1/realtime/calls``: how calls begin and end, with real calls on this machine."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.support.caller import eventually, get_json, request_json, services
from tests.support.calling import RATE, RtcCaller, calling, offer, request
from tests.support.patience import PATIENCE_S
from tests.support.scripted import Script, ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from voice_omni.proto.errors import OmniError
from voice_omni.server import Access, Services, create_app
from voice_omni.server.auth_keys import load_keys
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.transports.webrtc.options import WebRtcOptions

KEY = "sk-right-0123456789"
SDP = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
LONG = " ".join(["word"] * 200)


@pytest.fixture
def opened(silero: SileroModel) -> Services:
    """A server that asks for no key."""
    return services(ScriptedClient(), silero)


async def state(address: str) -> dict[str, Any]:
    _, body = await get_json(address, "/health")
    return {"sessions": body["sessions"]["current"], "calls": body["calls"]["current"]}


NOBODY = {"sessions": 0, "calls": 0}


async def until_nobody_calls(address: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await state(address) != NOBODY:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def offering() -> AsyncIterator[tuple[RtcCaller, str]]:
    """Somebody who wants to call, and the offer."""
    caller = RtcCaller()
    try:
        yield caller, await caller.offer()
    finally:
        await caller.close()


# How a call begins


async def test_the_stock_client_calls_and_hangs_up(opened: Services) -> None:
    async with serving(create_app(opened)) as address, offering() as (caller, sdp):
        client = AsyncOpenAI(base_url=f"http://{address}/v1", api_key="any")
        answer = await client.realtime.calls.create(sdp=sdp, session={"type": "realtime", "instructions": "Be brief."})
        assert answer.response.status_code == 201
        assert answer.response.headers["content-type"] == "application/sdp"
        location = answer.response.headers["location"]
        assert location.startswith("/v1/realtime/calls/rtc_")
        await caller.accept(answer.text)
        created = await caller.until("session.created")
        assert caller.events[0] is created
        assert created["session"]["instructions"] == "Be brief."
        assert await state(address) == {"sessions": 1, "calls": 1}
        await client.realtime.calls.hangup(location.rpartition("/")[2])
        await caller.hung_up.wait()
        assert not caller.all("error")
        await until_nobody_calls(address)
        await client.close()


async def test_an_ephemeral_key_brings_the_session_and_the_offer_may_change_it(silero: SileroModel) -> None:
    closed = services(ScriptedClient(), silero, access=Access(load_keys(KEY, None)))
    bearer = {"Authorization": f"Bearer {KEY}"}
    async with serving(create_app(closed)) as address:
        wanted = {"session": {"type": "realtime", "instructions": "Sing.", "audio": {"output": {"voice": "other"}}}}
        _, secret, _ = await request_json(address, "/v1/realtime/client_secrets", wanted, headers=bearer)
        ephemeral = {"Authorization": f"Bearer {secret['value']}"}
        async with calling(address, **ephemeral) as caller:
            assert caller.events[0]["session"]["instructions"] == "Sing."
        async with calling(address, {"type": "realtime", "instructions": "Hum."}, **ephemeral) as caller:
            assert caller.events[0]["session"]["instructions"] == "Hum."
            assert caller.events[0]["session"]["audio"]["output"]["voice"] == "other"
            path = f"/v1/realtime/calls/{caller.call_id}/hangup"
            assert (await request(address, path, b"", **ephemeral)).status == 403
            assert (await request(address, path, b"", **bearer)).status == 200
        async with calling(address, **bearer):
            pass
        async with offering() as (_, sdp):
            refused = await offer(address, sdp)
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")


FORM = "multipart/form-data; boundary=b"


NESTED = "".join(
    f"--b{depth or ''}\r\nContent-Type: multipart/mixed; boundary=b{depth + 1}\r\n\r\n" for depth in range(4000)
)


def form(**parts: str) -> bytes:
    text = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts.items()
    )
    return f"{text}--b--\r\n".encode()


@pytest.mark.parametrize(
    ("kind", "body", "status", "code", "param"),
    [
        ("application/sdp", b"", 400, "invalid_sdp", "sdp"),
        ("application/sdp", b"hello", 400, "invalid_sdp", "sdp"),
        ("application/sdp", b"\xff\xfe", 400, "invalid_sdp", "sdp"),
        ("application/sdp", b"v=0\r\nm=audio nonsense\r\n", 400, "invalid_sdp", "sdp"),
        ("application/sdp", SDP.encode(), 400, "no_audio", "sdp"),
        ("application/sdp", b"v=0" + b"x" * 70_000, 413, "request_too_large", None),
        ("application/json", json.dumps({"sdp": SDP}).encode(), 415, "unsupported_content_type", None),
        ("", SDP.encode(), 415, "unsupported_content_type", None),
        (FORM, b"", 400, "invalid_value", None),
        (FORM, form(session="{}"), 400, "missing_required_parameter", "sdp"),
        (FORM, form(sdp="hello", session="{}"), 400, "invalid_sdp", "sdp"),
        (FORM, form(sdp=SDP, session="{"), 400, "invalid_json", "session"),
        (FORM, form(sdp=SDP, session="[]"), 400, "invalid_value", "session"),
        (FORM, form(sdp=SDP, session='{"tune": 1}'), 400, "unknown_parameter", "session.tune"),
        (FORM, form(sdp=SDP + "x" * 70_000), 413, "request_too_large", None),
        (FORM, form(sdp=SDP, session='"' + "x" * 400_000 + '"'), 413, "request_too_large", None),
        (FORM, form(sdp=SDP)[:-8], 400, "invalid_value", None),
        (FORM, form(sdp=SDP).replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 2000 + b"\r\n\r\n"), 400, "invalid_value", None),
        (FORM, form(**{f"part{number}": "x" for number in range(9)}), 400, "invalid_value", None),
        (FORM, NESTED.encode(), 400, "invalid_value", None),
        ("multipart/form-data", form(sdp=SDP), 400, "invalid_value", None),
        (f"{FORM}{'b' * 2000}", form(sdp=SDP), 400, "invalid_value", None),
    ],
)
async def test_a_body_that_is_no_offer_is_told_what_is_wrong(
    opened: Services, kind: str, body: bytes, status: int, code: str, param: str | None
) -> None:
    async with serving(create_app(opened)) as address:
        answer = await request(address, "/v1/realtime/calls", body, Content_Type=kind)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (status, code, param)
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["message"]
        assert await state(address) == NOBODY


async def test_one_call_more_than_allowed_is_told_to_come_back(silero: SileroModel) -> None:
    for limits in ({"max_sessions": 1}, {"webrtc": WebRtcOptions(max_calls=1)}):
        async with serving(create_app(services(ScriptedClient(), silero, **limits))) as address:
            async with calling(address), offering() as (_, sdp):
                refused = await offer(address, sdp)
                assert (refused.status, refused.error["code"]) == (503, "overloaded")
                assert refused.error["type"] == "server_error"
            await until_nobody_calls(address)
            async with calling(address):
                pass


async def test_a_server_that_is_not_ready_takes_no_calls(silero: SileroModel) -> None:
    async with serving(create_app(services(ScriptedClient(), silero, ready=False))) as address, offering() as (_, sdp):
        refused = await offer(address, sdp)
    assert (refused.status, refused.error["code"]) == (503, "not_ready")


async def test_a_page_of_another_origin_may_call_where_it_is_allowed(silero: SileroModel) -> None:
    access = Access(allowed_origins=("https://app.example",))
    async with serving(create_app(services(ScriptedClient(), silero, access=access))) as address:
        asked = {
            "Origin": "https://app.example",
            "Access_Control_Request_Method": "POST",
            "Access_Control_Request_Headers": "authorization,content-type",
        }
        preflight = await request(address, "/v1/realtime/calls", method="OPTIONS", **asked)
        assert preflight.status == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        async with offering() as (_, sdp):
            answer = await offer(address, sdp, Origin="https://app.example")
            assert answer.status == 201
            assert answer.headers["access-control-expose-headers"] == "Location"
            assert (await offer(address, sdp, Origin="https://evil.example")).error["code"] == "origin_not_allowed"


# How it ends


@pytest.mark.parametrize(("method", "suffix"), [("POST", "/hangup"), ("DELETE", "")])
async def test_whoever_hangs_up_frees_the_session(opened: Services, method: str, suffix: str) -> None:
    async with serving(create_app(opened)) as address, calling(address) as caller:
        path = f"/v1/realtime/calls/{caller.call_id}{suffix}"
        assert (await request(address, path, method=method)).status == 200
        await caller.hung_up.wait()
        await until_nobody_calls(address)
        again = await request(address, path, method=method)
        assert (again.status, again.error["code"]) == (404, "call_not_found")


@pytest.mark.parametrize("action", ["accept", "reject", "refer"])
async def test_what_is_for_telephone_calls_is_told_apart(opened: Services, action: str) -> None:
    async with serving(create_app(opened)) as address, calling(address) as caller:
        answer = await request(address, f"/v1/realtime/calls/{caller.call_id}/{action}", b"{}")
        assert (answer.status, answer.error["code"]) == (400, "invalid_call_type")
        answer = await request(address, f"/v1/realtime/calls/rtc_none/{action}", b"{}")
        assert (answer.status, answer.error["code"]) == (404, "call_not_found")
        assert await state(address) == {"sessions": 1, "calls": 1}


async def test_a_caller_who_leaves_frees_the_session_and_aborts_the_answer(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer=LONG))
    async with serving(create_app(services(client, silero))) as address:
        async with calling(address) as caller:
            caller.send("response.create")
            await caller.until("output_audio_buffer.started")
        await until_nobody_calls(address)
    assert not client.alive


async def test_a_caller_who_vanishes_is_missed(silero: SileroModel) -> None:
    brief = WebRtcOptions(disconnect_timeout_s=3.0)
    async with serving(create_app(services(ScriptedClient(), silero, webrtc=brief))) as address:
        async with calling(address) as caller:
            caller.vanish()
            await until_nobody_calls(address)
        async with calling(address):
            pass


async def test_a_line_may_be_silent_until_its_caller_vanishes_and_then_another_is_served(
    silero: SileroModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sound stops in the middle of a turn, comes back much later, and then everything stops."""
    monkeypatch.setattr("aioice.ice.CONSENT_INTERVAL", 0.3)  # the caller's checks: in proportion to the timeout
    brief = WebRtcOptions(disconnect_timeout_s=3.0)
    client = ScriptedClient(lambda request, number: Script(answer="Yes.", word_seconds=0.3))
    one = services(client, silero, webrtc=brief, max_sessions=1)
    said = recording("question-10")
    speech = said.samples(RATE)[: round(said.speech_end * RATE)]
    async with serving(create_app(one)) as address:
        async with calling(address) as caller:
            await caller.say(speech, RATE)
            caller.voice.pause()
            await caller.until("output_audio_buffer.stopped")
            await asyncio.sleep(2 * brief.disconnect_timeout_s)
            assert await state(address) == {"sessions": 1, "calls": 1}
            caller.voice.resume()
            await caller.say(speech, RATE)
            await caller.until("output_audio_buffer.stopped", 2)
            assert len(caller.all("input_audio_buffer.committed")) == 2
            assert not caller.all("error")
            caller.vanish()
            await until_nobody_calls(address)
        async with calling(address) as another:
            await another.say(speech, RATE)
            await another.until("output_audio_buffer.stopped")
    assert not client.alive


async def test_a_call_that_never_connects_is_given_up(silero: SileroModel) -> None:
    brief = WebRtcOptions(connect_timeout_s=0.5)
    app = create_app(services(ScriptedClient(), silero, webrtc=brief))
    async with serving(app) as address, offering() as (_, sdp):
        assert (await offer(address, sdp)).status == 201
        assert await state(address) == {"sessions": 1, "calls": 1}
        await until_nobody_calls(address)


async def test_a_session_that_has_lasted_its_time_says_so(silero: SileroModel) -> None:
    brief = SessionOptions(max_duration_s=1)
    async with serving(create_app(services(ScriptedClient(), silero, options=brief))) as address:
        async with calling(address) as caller:
            await caller.hung_up.wait()
            assert [event["error"]["code"] for event in caller.all("error")] == ["session_expired"]
        await until_nobody_calls(address)


async def test_a_server_that_goes_away_says_goodbye(opened: Services) -> None:
    app = create_app(opened)
    caller = RtcCaller()
    async with serving(app) as address:
        await caller.accept((await offer(address, await caller.offer())).text)
        await caller.until("session.created")
        app.state.sessions.drain()
        await caller.hung_up.wait()
        refused = await offer(address, SDP)
        assert (refused.status, refused.error["code"]) == (503, "server_shutting_down")
    assert caller.events[-1]["error"]["code"] == "server_shutting_down"
    await caller.close()


async def test_a_session_that_fails_ends_its_own_call_and_says_so(
    opened: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(opened)
    async with serving(app) as address, calling(address) as caller, calling(address) as other:
        monkeypatch.setattr("voice_omni.realtime.core.RealtimeCore._obey", _fail)
        caller.send("input_audio_buffer.clear")
        await caller.hung_up.wait()
        monkeypatch.undo()
        assert caller.events[-1]["error"]["code"] == "internal_error"
        other.send("input_audio_buffer.clear")
        await other.until("input_audio_buffer.cleared")
    assert "its session failed" in caplog.text


def _fail(*_: object) -> None:
    raise RuntimeError("a fault")


# The media processes


async def media(address: str) -> list[dict[str, Any]]:
    _, body = await get_json(address, "/health")
    processes: list[dict[str, Any]] = body["media_processes"]
    return processes


async def test_nobody_calls_no_process_runs_and_whoever_asks_for_servers_starts_one(opened: Services) -> None:
    async with serving(create_app(opened)) as address:
        assert await media(address) == []
        await get_json(address, "/v1/realtime/ice_servers")
        [process] = await media(address)
        assert (process["state"], process["restarts"]) == ("starting", 0)
        async with calling(address):
            [process] = await media(address)
            assert (process["state"], process["restarts"], process["calls"]) == ("ready", 0, 1)
        await until_nobody_calls(address)
        await get_json(address, "/v1/realtime/ice_servers")
        async with calling(address):
            [again] = await media(address)
            assert (again["pid"], again["restarts"], again["calls"]) == (process["pid"], 0, 1)
    await eventually(lambda: not _runs(process["pid"]))


async def test_calls_go_to_the_process_that_has_the_fewest(silero: SileroModel) -> None:
    two = WebRtcOptions(processes=2)
    app = create_app(services(ScriptedClient(), silero, webrtc=two))
    async with serving(app) as address, calling(address), calling(address):
        assert [each["calls"] for each in await media(address)] == [1, 1]
        async with calling(address):
            assert sorted(each["calls"] for each in await media(address)) == [1, 2]


async def test_a_media_process_that_dies_takes_only_its_own_calls_with_it(
    silero: SileroModel, caplog: pytest.LogCaptureFixture
) -> None:
    two = WebRtcOptions(processes=2)
    client = ScriptedClient(Script(answer=LONG))
    app = create_app(services(client, silero, webrtc=two))
    async with serving(app) as address, calling(address) as caller, calling(address) as other:
        caller.send("response.create")
        await caller.until("output_audio_buffer.started")
        victim = (await media(address))[0]["pid"]
        with caplog.at_level(logging.ERROR):
            os.kill(victim, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE_S):
                while await state(address) != {"sessions": 1, "calls": 1}:
                    await asyncio.sleep(0.02)
        assert "a media process died with 1 calls in it" in caplog.text
        assert not client.alive
        other.send("input_audio_buffer.clear")
        await other.until("input_audio_buffer.cleared")
        async with calling(address):
            assert [(each["state"], each["restarts"], each["calls"]) for each in await media(address)] == [
                ("ready", 1, 1),
                ("ready", 0, 1),
            ]


async def test_a_media_process_that_hangs_is_killed(opened: Services, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(create_app(opened)) as address, calling(address):
        [process] = await media(address)
        os.kill(process["pid"], signal.SIGSTOP)
        await until_nobody_calls(address)
        assert "hangs; it is killed" in caplog.text
        await eventually(lambda: not _runs(process["pid"]))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Servers between the two sides


async def test_a_caller_is_given_servers_with_credentials_of_its_own(silero: SileroModel) -> None:
    options = WebRtcOptions(
        ice_servers=("stun:stun.example:3478", "turn:turn.example:3478?transport=udp"),
        turn_secret="shared",
        turn_ttl_s=60,
    )
    access = Access(load_keys(f"page={KEY}", None))
    async with serving(create_app(services(ScriptedClient(), silero, webrtc=options, access=access))) as address:
        before = time.time()
        answer = await request(address, "/v1/realtime/ice_servers", method="GET", Authorization=f"Bearer {KEY}")
        assert (await request(address, "/v1/realtime/ice_servers", method="GET")).status == 401
    assert answer.headers["cache-control"] == "no-store"
    stun, turn = json.loads(answer.text)["ice_servers"]
    assert stun == {"urls": ["stun:stun.example:3478"]}
    assert turn["urls"] == ["turn:turn.example:3478?transport=udp"]
    expires, _, name = turn["username"].partition(":")
    assert name == "page"
    assert before + 59 <= int(expires) <= time.time() + 60
    expected = hmac.new(b"shared", turn["username"].encode(), hashlib.sha1).digest()
    assert base64.b64decode(turn["credential"]) == expected


async def test_an_ephemeral_key_is_enough_to_ask_for_them(silero: SileroModel) -> None:
    closed = services(ScriptedClient(), silero, access=Access(load_keys(KEY, None)))
    async with serving(create_app(replace(closed))) as address:
        bearer = {"Authorization": f"Bearer {KEY}"}
        _, secret, _ = await request_json(address, "/v1/realtime/client_secrets", {}, headers=bearer)
        answer = await request(
            address, "/v1/realtime/ice_servers", method="GET", Authorization=f"Bearer {secret['value']}"
        )
    assert json.loads(answer.text) == {"ice_servers": []}


async def test_an_offer_is_not_answered_by_a_pipeline_fault_but_by_an_event(silero: SileroModel) -> None:
    """A call is connected whatever the pipeline can do at the moment; the response says what went wrong."""
    client = ScriptedClient(Script(refuse=OmniError("stage_died", "the talker died", retryable=True)))
    async with serving(create_app(services(client, silero))) as address, calling(address) as caller:
        caller.send("response.create")
        done = await caller.until("response.done")
        assert done["response"]["status"] == "failed"
