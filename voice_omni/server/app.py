"""The application: routes over a running pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from voice_omni.server import health, models, realtime
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions


def create_app(services: Services) -> Starlette:
    """An ASGI application. Sessions that are open when it shuts down are asked to leave."""
    sessions = Sessions(services)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        sessions.drain()

    app = Starlette(
        routes=[
            *realtime.routes(services, sessions),
            *health.routes(services, sessions),
            *models.routes(services),
        ],
        lifespan=lifespan,
    )
    app.state.sessions = sessions
    return app
