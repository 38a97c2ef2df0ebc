"""``GET /v1/models``: what can be asked for, in OpenAI's shape."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from voice_omni.server.http_errors import error_response
from voice_omni.server.services import Services


def routes(services: Services) -> list[BaseRoute]:
    model = services.model
    card: dict[str, Any] = {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "voice_omni",
        "description": model.description,
        "voices": list(model.voices),
    }

    async def listing(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [card]})

    async def one(request: Request) -> JSONResponse:
        name = request.path_params["name"]
        if name == model.name:
            return JSONResponse(card)
        return error_response(404, "model_not_found", f"The model '{name}' does not exist.", param="model")

    return [
        Route("/v1/models", listing, methods=["GET"]),
        Route("/v1/models/{name:path}", one, methods=["GET"]),
    ]
