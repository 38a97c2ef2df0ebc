"""uvicorn's connections, with the limits that they lack."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

REQUEST_S: Final = 10.0
"""A request has to arrive whole, body included, within this of the connection or of its own first byte."""
MAX_FRAGMENTS: Final = 10_000
"""Frames of one message. Without a bound, empty ones would pile up below any limit of its size."""


class HttpProtocol(H11Protocol):
    """Closes connections whose request does not arrive, which uvicorn would hold for ever, and those beyond uvicorn's
    ``limit_concurrency`` at once: uvicorn lets them in and waits for a request before it refuses that.

    A request that is being answered and a connection that has become a WebSocket are not touched.
    """

    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        current: Any = self.transport.get_protocol()
        if current is not self or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._too_late is None:
            self._too_late = self.loop.call_later(REQUEST_S, self.transport.close)

    def _forget(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Bounds what a client can make the server hold, and takes a client's fault for one: no tracebacks in the log."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # refused with an HTTP answer, which is a complete handshake too

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
        else:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # who does not read is not owed a pong for each of any number of pings

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "text that is not UTF-8")
                return
        super().send_receive_event_to_app()

    def _fail(self, code: CloseCode, reason: str) -> None:
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()
