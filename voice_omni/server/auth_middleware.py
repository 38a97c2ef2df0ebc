"""The guard in front of every route, present and future: what is not public needs to be let in."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from voice_omni.realtime.events import EventWriter
from voice_omni.realtime.ids import IdFactory
from voice_omni.server.auth import Caller, Guard, Refused, is_public
from voice_omni.server.http_errors import error_response
from voice_omni.session.outbox import Close
from voice_omni.transports import websocket as transport

_CALLER = "voice_omni.caller"


def caller_of(connection: HTTPConnection) -> Caller | None:
    """Who sent the request; None for a stranger at a public route."""
    caller: Caller | None = connection.scope.get(_CALLER)
    return caller


class AuthMiddleware:
    """Lets a request through with its caller, or answers it.

    A refused WebSocket handshake is answered with the HTTP status, which every client with headers can see. A browser
    cannot see it: one that offers the subprotocol ``realtime`` is accepted, told in an ``error`` event, and closed
    with 1008, which no client takes for a reason to try again.
    """

    def __init__(self, app: ASGIApp, guard: Guard, ids: IdFactory) -> None:
        self._app = app
        self._guard = guard
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            caller = self._guard.admit(scope["path"], headers, scope.get("subprotocols", ()))
        except Refused as refused:
            if not is_public(scope["path"]):
                await self._refuse(refused, scope, receive, send)
                return
        else:
            scope[_CALLER] = caller
        await self._app(scope, receive, send)

    async def _refuse(self, refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
        extra = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
        response = error_response(refused.status, refused.code, refused.message, headers=extra)
        if scope["type"] == "http":
            await response(scope, receive, send)
            return
        websocket = WebSocket(scope, receive, send)
        if "authorization" not in websocket.headers and transport.SUBPROTOCOL in scope["subprotocols"]:
            event = EventWriter(self._ids).error(refused.code, refused.message, kind="invalid_request_error")
            await transport.refuse(websocket, event, Close(1008, refused.code))
        else:
            await websocket.send_denial_response(response)
