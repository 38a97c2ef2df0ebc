"""``/v1/realtime``: the OpenAI Realtime contract over a WebSocket."""

from __future__ import annotations

import logging
from contextlib import suppress

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.connection import connection_of
from voice_omni.realtime.events import EventWriter
from voice_omni.server.auth_middleware import caller_of
from voice_omni.server.refusals import refuse_websocket
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions
from voice_omni.session.outbox import Close
from voice_omni.transports import websocket as transport

_log = logging.getLogger(__name__)


def routes(services: Services, sessions: Sessions) -> list[BaseRoute]:
    async def realtime(websocket: WebSocket) -> None:
        """See :mod:`voice_omni.realtime.connection` for what a client can ask for by the way in which it connects."""
        query = websocket.query_params
        if "call_id" in query:
            message = "No session found for the provided call_id."
            await refuse_websocket(websocket, services.ids, 404, "call_id_not_found", message, param="call_id")
            return
        connection = connection_of(
            beta_headers=websocket.headers.getlist("openai-beta"),
            subprotocols=websocket.scope["subprotocols"],
            intents=query.getlist("intent"),
            includes=query.getlist("include"),
            extensions=query.getlist("extensions"),
        )
        with suppress(WebSocketDisconnect):  # a client that leaves in the middle of the greeting is no fault
            try:
                caller = caller_of(websocket)
                settings = caller.session if caller is not None else None
                if caller is not None and caller.name is not None:
                    _log.info("a session begins with the key '%s'", caller.name)
                with sessions.admit(settings, connection) as (session, outbox):
                    await transport.run(websocket, session, outbox)
            except OmniError as error:
                event = EventWriter(services.ids).error(error.code, error.info.message, kind="server_error")
                await transport.refuse(websocket, event, Close(1013, error.code))

    return [WebSocketRoute("/v1/realtime", realtime)]
