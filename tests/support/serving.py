"""A real server on a free port of this machine, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette

from voice_omni.transports.websocket import UVICORN_OPTIONS


class _Server(uvicorn.Server):
    """Says when it listens, and leaves the signals to the tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: Starlette, **more: Any) -> AsyncIterator[str]:
    """Yields ``host:port``. ``more``: options of uvicorn."""
    options: dict[str, Any] = {**UVICORN_OPTIONS, "host": "127.0.0.1", "port": 0, "log_config": None, **more}
    server = _Server(uvicorn.Config(app, **options, timeout_graceful_shutdown=2))
    task = asyncio.create_task(server.serve())
    await server.listening.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task
