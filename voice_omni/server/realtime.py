"""``/v1/realtime``: the OpenAI Realtime contract over a WebSocket."""

from __future__ import annotations

from contextlib import suppress

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.events import EventWriter
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions
from voice_omni.session.outbox import Close
from voice_omni.transports import websocket as transport


def routes(services: Services, sessions: Sessions) -> list[BaseRoute]:
    async def realtime(websocket: WebSocket) -> None:
        """With ``?include=timings`` each ``response.done`` also tells where the time went, as an extension."""
        include_timings = "timings" in websocket.query_params.getlist("include")
        with suppress(WebSocketDisconnect):  # a client that leaves in the middle of the greeting is no fault
            try:
                with sessions.admit(include_timings=include_timings) as (session, outbox):
                    await transport.run(websocket, session, outbox)
            except OmniError as error:
                event = EventWriter(services.ids).error(error.code, error.info.message, kind="server_error")
                await transport.refuse(websocket, event, Close(1013, error.code))

    return [WebSocketRoute("/v1/realtime", realtime)]
