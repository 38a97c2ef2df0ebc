"""The guard in front of every route, present and future: what is not public needs to be let in."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from voice_omni.realtime.ids import IdFactory
from voice_omni.server.auth import Caller, Guard, Refused, is_public
from voice_omni.server.http_errors import error_response
from voice_omni.server.refusals import refuse_websocket

_CALLER = "voice_omni.caller"


def caller_of(connection: HTTPConnection) -> Caller | None:
    """Who sent the request; None for a stranger at a public route."""
    caller: Caller | None = connection.scope.get(_CALLER)
    return caller


class AuthMiddleware:
    """Lets a request through with its caller, or answers it."""

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
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
        status, code, message = refused.status, refused.code, refused.message
        if scope["type"] == "http":
            await error_response(status, code, message, headers=headers)(scope, receive, send)
        else:
            websocket = WebSocket(scope, receive, send)
            await refuse_websocket(websocket, self._ids, status, code, message, headers=headers)
