"""The application: routes over a running pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from voice_omni.server import calls, client_secrets, health, models, page, realtime
from voice_omni.server.auth import Guard
from voice_omni.server.auth_logging import keep_keys_out_of_logs
from voice_omni.server.auth_middleware import AuthMiddleware
from voice_omni.server.auth_origins import LOCALHOST_ORIGIN
from voice_omni.server.auth_secrets import MAX_SECRETS, ClientSecrets
from voice_omni.server.http_errors import HANDLERS
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions

_CORS_MAX_AGE_S = 600


def create_app(services: Services) -> Starlette:
    """An ASGI application. Sessions that are open when it shuts down are asked to leave, calls are ended."""
    keep_keys_out_of_logs()
    sessions = Sessions(services)
    lines = calls.Calls(services, sessions)
    secrets = ClientSecrets(services.wall_clock, limit=MAX_SECRETS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        sessions.drain()
        await lines.close()

    app = Starlette(
        routes=[
            *realtime.routes(services, sessions),
            *calls.routes(lines, sessions),
            *client_secrets.routes(sessions, secrets),
            *health.routes(services, sessions, lines),
            *models.routes(services),
            *page.routes(),
        ],
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=services.access.allowed_origins,
                allow_origin_regex=LOCALHOST_ORIGIN,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=("*",),  # each client library sends some of its own; it is the origin that decides
                expose_headers=("Location",),
                max_age=_CORS_MAX_AGE_S,
            ),
            Middleware(AuthMiddleware, guard=Guard(services.access, secrets), ids=services.ids),
        ],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    app.state.sessions = sessions
    return app
