"""``POST /v1/realtime/client_secrets`` and its older forms: keys for clients that must not have a real one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from voice_omni.realtime.connection import PLAIN, Connection
from voice_omni.server.auth_middleware import caller_of
from voice_omni.server.auth_secrets import DEFAULT_LIFE_S, MAX_LIFE_S, MIN_LIFE_S, ClientSecret, ClientSecrets
from voice_omni.server.http_errors import decode_json, read_json
from voice_omni.server.sessions import Sessions


class _Expiry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, msgspec.Meta(ge=MIN_LIFE_S, le=MAX_LIFE_S)] = DEFAULT_LIFE_S


class _Wanted(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    expires_after: _Expiry | None = None
    session: dict[str, Any] | None = None


class _OldSecret(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    expires_after: _Expiry | None = None


class _Old(msgspec.Struct, frozen=True, kw_only=True):
    client_secret: _OldSecret | None = None


def routes(sessions: Sessions, secrets: ClientSecrets) -> list[BaseRoute]:
    def issue(
        request: Request, patch: dict[str, Any], expiry: _Expiry | None, connection: Connection = PLAIN
    ) -> tuple[str, ClientSecret, dict[str, Any]]:
        settings, shown = sessions.effective(patch, connection)
        caller = caller_of(request)
        issuer = caller.name if caller is not None else None
        value, secret = secrets.issue(issuer, settings, (expiry or _Expiry()).seconds)
        return value, secret, shown

    async def client_secrets(request: Request) -> JSONResponse:
        """The settings are checked here, so that a wrong one fails where it was made and not in a browser."""
        wanted = await read_json(request, _Wanted)
        value, secret, shown = issue(request, wanted.session or {}, wanted.expires_after)
        return JSONResponse({"value": value, "expires_at": secret.expires_at, "session": shown})

    async def old_sessions(request: Request) -> JSONResponse:
        """The body is the session, in the beta dialect, and the reply is the session with the key in it."""
        patch = await read_json(request, dict[str, Any])
        secret_options = msgspec.json.encode({"client_secret": patch.pop("client_secret", None)})
        connection = Connection(beta=True, transcription=request.url.path.endswith("/transcription_sessions"))
        expiry = decode_json(secret_options, _Old).client_secret
        value, secret, shown = issue(request, patch, expiry.expires_after if expiry else None, connection)
        return JSONResponse({**shown, "client_secret": {"value": value, "expires_at": secret.expires_at}})

    return [
        Route("/v1/realtime/client_secrets", client_secrets, methods=["POST"]),
        Route("/v1/realtime/sessions", old_sessions, methods=["POST"]),
        Route("/v1/realtime/transcription_sessions", old_sessions, methods=["POST"]),
    ]
