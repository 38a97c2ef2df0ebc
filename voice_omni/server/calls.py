"""``/v1/realtime/calls``: the OpenAI Realtime contract over WebRTC."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.connection import Connection, connection_of
from voice_omni.realtime.events import EventWriter
from voice_omni.realtime.settings import Session
from voice_omni.server.auth import Caller
from voice_omni.server.auth_middleware import caller_of
from voice_omni.server.http_errors import error_response
from voice_omni.server.offers import read_offer
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions
from voice_omni.session.outbox import Outbox
from voice_omni.transports.webrtc.call import HUNG_UP, Call
from voice_omni.transports.webrtc.ice_servers import ice_servers
from voice_omni.transports.webrtc.media_host import MediaHost
from voice_omni.transports.webrtc.peer_interface import PeerSettings

SDP: Final = "application/sdp"
_LEAVE_S: Final = 3.0
"""How long calls may take to end at a shutdown: a goodbye and what carries it."""

logger = logging.getLogger(__name__)


class Calls:
    """The calls under way. Each belongs to a task, from its admission until nothing of it is left."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        self._services = services
        self._sessions = sessions
        self._host = MediaHost(services.webrtc.processes)
        self._outboxes: dict[str, Outbox | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._outboxes)

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._outboxes

    def warm(self) -> None:
        """Somebody is about to call."""
        self._host.warm()

    async def begin(self, offer: str, settings: Session | None, request: Request) -> tuple[str, str]:
        """Answer a call; returns its id and the answer.

        Raises :class:`OmniError`: what :meth:`Sessions.admit` raises, and what the offer lacks.
        """
        most = self._services.webrtc.max_calls
        if len(self._outboxes) >= most:
            message = f"The server holds {most} calls, its maximum. Try again later."
            raise OmniError("overloaded", message, retryable=True)
        call_id = self._services.ids("rtc")
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._outboxes[call_id] = None
        task = asyncio.create_task(self._hold(call_id, offer, settings, request, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A client that does not wait for the answer has still called: the call is given up when it does not connect.
        return call_id, await asyncio.shield(answered)

    def hang_up(self, call_id: str) -> bool:
        """Whether there is such a call."""
        outbox = self._outboxes.get(call_id)
        if outbox is None:
            return False
        outbox.close(HUNG_UP)
        return True

    def health(self) -> dict[str, Any]:
        calls = {"current": len(self), "max": self._services.webrtc.max_calls}
        return {"calls": calls, "media_processes": self._host.health()}

    async def close(self) -> None:
        """Let the calls end, which :meth:`Sessions.drain` has asked them to, and then their processes."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LEAVE_S)
        await self._host.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def ice_servers(self, caller: str | None) -> list[dict[str, Any]]:
        """In the shape of a browser's ``RTCConfiguration.iceServers``."""
        servers = ice_servers(self._services.webrtc, caller or "caller", self._services.wall_clock())
        return [
            {"urls": server.urls}
            if server.username is None
            else {"urls": server.urls, "username": server.username, "credential": server.credential}
            for server in servers
        ]

    async def _hold(
        self, call_id: str, offer: str, settings: Session | None, request: Request, answered: asyncio.Future[str]
    ) -> None:
        """One call, from its admission to its end. What goes wrong before the answer is its caller's to hear."""
        peer = self._peer_settings(call_id)
        call = Call(call_id, peer.input_rate, EventWriter(self._services.ids))
        try:
            with self._sessions.admit(settings, _connection(request), call) as (session, outbox):
                self._outboxes[call_id] = outbox
                try:
                    answered.set_result(await call.answer(self._host, offer, peer))
                    logger.info("call %s begins%s", call_id, _with_key(caller_of(request)))
                    logger.info("call %s is over: %s", call_id, await call.run(session, outbox))
                finally:
                    await session.close()
        except Exception as error:
            if answered.done():
                logger.exception("call %s failed", call_id)
            else:
                answered.set_exception(error)
        finally:
            del self._outboxes[call_id]

    def _peer_settings(self, call_id: str) -> PeerSettings:
        options = self._services.webrtc
        rate = self._services.client.input_sample_rate
        return PeerSettings(
            ice_servers=ice_servers(options, call_id, self._services.wall_clock()),
            relay_only=options.relay_only,
            udp_ports=(options.udp_port_min, options.udp_port_max) if options.udp_port_min else None,
            public_address=options.public_address,
            networks=options.networks,
            excluded_networks=options.excluded_networks,
            ipv6=options.ipv6,
            gather_timeout_s=options.gather_timeout_s,
            codecs=options.codecs,
            bitrate=options.bitrate,
            complexity=options.complexity,
            expected_loss_percent=options.expected_loss_percent,
            # The model's own rate where a peer has it: the caller's sound is then resampled in the media process only.
            input_rate=rate if rate in (16_000, 24_000, 48_000) else 24_000,  # type: ignore[arg-type]
            min_wait_ms=options.min_wait_ms,
            max_wait_ms=options.max_wait_ms,
            connect_timeout_s=options.connect_timeout_s,
            disconnect_timeout_s=options.disconnect_timeout_s,
        )


def _connection(request: Request) -> Connection:
    """An event channel carries text only, so there is no extension for sound to ask for."""
    query = request.query_params
    return connection_of(
        beta_headers=request.headers.getlist("openai-beta"),
        intents=query.getlist("intent"),
        includes=query.getlist("include"),
    )


def _with_key(caller: Caller | None) -> str:
    return f" with the key '{caller.name}'" if caller is not None and caller.name is not None else ""


def routes(calls: Calls, sessions: Sessions) -> list[BaseRoute]:
    async def create(request: Request) -> Response:
        """The offer's session holds over that of an ephemeral key, like an update of it."""
        offer, patch = await read_offer(request)
        caller = caller_of(request)
        settings = caller.session if caller is not None else None
        if patch is not None:
            settings, _ = sessions.effective(patch, _connection(request), settings)
        call_id, answer = await calls.begin(offer, settings, request)
        return Response(answer, 201, {"Location": f"/v1/realtime/calls/{call_id}"}, SDP)

    async def hang_up(request: Request) -> Response:
        call_id = request.path_params["call_id"]
        return Response(status_code=200) if calls.hang_up(call_id) else _unknown(call_id)

    async def for_telephones(request: Request) -> Response:
        """What the contract has for calls that come in by SIP."""
        call_id, action = request.path_params["call_id"], request.url.path.rpartition("/")[2]
        if call_id not in calls:
            return _unknown(call_id)
        message = f"'{action}' is for calls that come in by SIP. This one came by WebRTC and is under way."
        return error_response(400, "invalid_call_type", message)

    async def list_ice_servers(request: Request) -> Response:
        """Whoever asks is about to call."""
        calls.warm()
        caller = caller_of(request)
        servers = calls.ice_servers(caller.name if caller is not None else None)
        return JSONResponse({"ice_servers": servers}, headers={"Cache-Control": "no-store"})

    one = "/v1/realtime/calls/{call_id}"
    return [
        Route("/v1/realtime/calls", create, methods=["POST"]),
        Route(one, hang_up, methods=["DELETE"]),
        Route(f"{one}/hangup", hang_up, methods=["POST"]),
        *(Route(f"{one}/{action}", for_telephones, methods=["POST"]) for action in ("accept", "reject", "refer")),
        Route("/v1/realtime/ice_servers", list_ice_servers, methods=["GET"]),
    ]


def _unknown(call_id: str) -> Response:
    return error_response(404, "call_not_found", f"There is no call '{call_id}'.", param="call_id")
