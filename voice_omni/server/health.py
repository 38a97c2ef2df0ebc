"""``GET /health``: whether the server can talk, and what it is made of."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from voice_omni import __version__
from voice_omni.server.services import Services
from voice_omni.server.sessions import Sessions
from voice_omni.session.options import described


def routes(services: Services, sessions: Sessions) -> list[BaseRoute]:
    async def health(_: Request) -> JSONResponse:
        """503 until every stage is ready, and while one is being restarted."""
        pipeline = services.health()
        body = {
            "status": "ready" if pipeline["ready"] else "starting",
            "version": __version__,
            "model": services.model.name,
            "sessions": {"current": len(sessions), "max": services.max_sessions},
            "pipeline": pipeline,
            "session_defaults": described(services.options),
        }
        return JSONResponse(body, status_code=200 if pipeline["ready"] else 503)

    return [Route("/health", health, methods=["GET"])]
