"""``GET /health``: whether the server can talk, and what it is made of."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from voice_omni import __version__
from voice_omni.server.auth_middleware import caller_of
from voice_omni.server.calls import Calls
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions
from voice_omni.session.options import described


def routes(services: Services, sessions: Sessions, calls: Calls) -> list[BaseRoute]:
    async def health(request: Request) -> JSONResponse:
        """503 until every stage is ready, and while one is being restarted.

        Whoever asks, such as a load balancer, is told that much; what the server is made of is for callers with a key.
        """
        pipeline = services.health()
        status_code = 200 if pipeline["ready"] else 503
        status = "ready" if pipeline["ready"] else "starting"
        if caller_of(request) is None:
            return JSONResponse({"status": status}, status_code=status_code)
        body = {
            "status": status,
            "version": __version__,
            "model": services.model.name,
            "sessions": {"current": len(sessions), "max": services.max_sessions},
            **calls.health(),
            "semantic_vad": services.judge is not None,
            "turns": msgspec.to_builtins(services.counters),
            "pipeline": pipeline,
            "session_defaults": described(services.options),
        }
        return JSONResponse(body, status_code=status_code)

    return [Route("/health", health, methods=["GET"])]
