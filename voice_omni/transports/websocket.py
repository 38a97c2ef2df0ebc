"""A session over a WebSocket: frames in, events out, close codes.

Close codes: 1001 the server is going away or the session has lasted its time, 1009 a message is too large (the
WebSocket library), 1011 a fault of the server, 1013 too many sessions or not ready: try again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from voice_omni.session.outbox import BinaryFrame, Close, Outbox
from voice_omni.session.session import VoiceSession
from voice_omni.transports.protocols import HttpProtocol, WebSocketProtocol

SUBPROTOCOL: Final = "realtime"
MAX_MESSAGE_BYTES: Final = 21 * 1024 * 1024
"""The contract's 15 MiB of audio in one event, as base64, and the JSON around it."""
_CLOSE_S: Final = 5.0

UVICORN_OPTIONS: Final[dict[str, Any]] = {
    "http": HttpProtocol,
    "ws": WebSocketProtocol,
    "ws_max_size": MAX_MESSAGE_BYTES,
    # A listener whose own buffers are full answers a ping only when it has read what came before it: with the usual
    # 20 s a client that pauses for half a minute would be cut off. A dead peer is found all the same.
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 60.0,
    # Base64 of speech hardly shrinks, and compressing it costs more than anything else a session does.
    "ws_per_message_deflate": False,
}
"""How uvicorn has to be set up for this transport."""

logger = logging.getLogger(__name__)


def chosen_subprotocol(offered: Sequence[str]) -> str | None:
    """``realtime`` and nothing else: the other protocols that browsers offer carry their key."""
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


async def refuse(websocket: WebSocket, event: dict[str, Any], close: Close) -> None:
    """Accept, say why not, and close: a refused handshake would hide the reason from browsers."""
    await websocket.accept(subprotocol=chosen_subprotocol(websocket.scope["subprotocols"]))
    await websocket.send_json(event)
    await websocket.close(close.code, close.reason)


async def run(websocket: WebSocket, session: VoiceSession, outbox: Outbox) -> None:
    """Serve one client until it leaves, the session ends or the server does."""
    await websocket.accept(subprotocol=chosen_subprotocol(websocket.scope["subprotocols"]))
    session.open()
    reading = asyncio.create_task(_read(websocket, session, outbox))
    writing = asyncio.create_task(_write(websocket, outbox))
    try:
        await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        reading.cancel()
        writing.cancel()
        await asyncio.wait((reading, writing))
        await session.close()
    for task in (reading, writing):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _read(websocket: WebSocket, session: VoiceSession, outbox: Outbox) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        try:
            await session.receive(text if text is not None else message["bytes"])
        except Exception:
            # The state of this session can no longer be trusted. All others go on.
            logger.exception("a session failed")
            outbox.close(Close(1011, "internal error"))
            await asyncio.Event().wait()  # until the writer has said so
        await outbox.drained()


async def _write(websocket: WebSocket, outbox: Outbox) -> None:
    try:
        while not isinstance(frame := await outbox.get(), Close):
            if isinstance(frame, BinaryFrame):
                await websocket.send({"type": "websocket.send", "bytes": frame.data})
            else:
                await websocket.send({"type": "websocket.send", "text": frame.decode()})
        async with asyncio.timeout(_CLOSE_S):
            await websocket.close(frame.code, frame.reason)
    except (WebSocketDisconnect, TimeoutError):
        return  # the client is gone, or does not even take its leave
