"""Refusing a WebSocket so that whoever asked for it learns why."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.websockets import WebSocket

from voice_omni.realtime.events import EventWriter
from voice_omni.realtime.ids import IdFactory
from voice_omni.server.http_errors import error_response
from voice_omni.session.outbox import Close
from voice_omni.transports import websocket as transport


async def refuse_websocket(
    websocket: WebSocket,
    ids: IdFactory,
    status: int,
    code: str,
    message: str,
    *,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer the handshake with the HTTP ``status``, which every client with headers can see.

    A browser cannot see it: one that offers the subprotocol ``realtime`` is accepted, told in an ``error`` event, and
    closed with 1008, which no client takes for a reason to try again.
    """
    if "authorization" not in websocket.headers and transport.SUBPROTOCOL in websocket.scope["subprotocols"]:
        event = EventWriter(ids).error(code, message, param=param, kind="invalid_request_error")
        await transport.refuse(websocket, event, Close(1008, code))
    else:
        response = error_response(status, code, message, param=param, headers=headers)
        await websocket.send_denial_response(response)
