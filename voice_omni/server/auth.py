"""Who may use the server: keys, ephemeral keys and, where no key is asked for, which web pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers

from voice_omni.realtime.settings import Session
from voice_omni.server.auth_keys import EPHEMERAL_PREFIX, KeyRing
from voice_omni.server.auth_origins import may_use
from voice_omni.server.auth_secrets import ClientSecrets

KEY_SUBPROTOCOL: Final = "openai-insecure-api-key."
"""Browsers cannot set headers on a WebSocket, so they offer their key as a subprotocol that begins like this."""
_PUBLIC: Final = frozenset({"/", "/health"})
_PUBLIC_BELOW: Final = "/assets/"
EPHEMERAL: Final = frozenset({"/v1/realtime", "/v1/realtime/calls", "/v1/realtime/ice_servers"})
"""All that an ephemeral key opens: it may talk, not look around or make more keys."""


def is_public(path: str) -> bool:
    """Whether a path is open to everybody: the page and what it is made of, and ``/health``.

    What is shown there to somebody without a key is up to the route.
    """
    return path in _PUBLIC or path.startswith(_PUBLIC_BELOW)


@dataclass(frozen=True, slots=True)
class Access:
    """What an operator decides. No keys: everybody who can reach the server may use it, but not from any web page."""

    keys: KeyRing = field(default_factory=KeyRing)
    allowed_origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request.

    ``name``: of the key; None where no key is asked for. ``session``: the settings that came with an ephemeral key.
    """

    name: str | None = None
    session: Session | None = None


class Refused(Exception):
    """The request is not let in; ``status`` and ``code`` are those of the HTTP answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Guard:
    """Decides on requests by their path and headers."""

    def __init__(self, access: Access, secrets: ClientSecrets) -> None:
        self._access = access
        self._secrets = secrets

    def admit(self, path: str, headers: Headers, subprotocols: Sequence[str] = ()) -> Caller:
        """Raises :class:`Refused`. No message repeats the key that was presented."""
        key = presented_key(headers, subprotocols)
        if key is not None and key.startswith(EPHEMERAL_PREFIX):
            return self._ephemeral(key, path)
        if not len(self._access.keys):
            return self._open(headers, self._access.allowed_origins)
        if key is None:
            raise Refused(
                401,
                "invalid_api_key",
                "You didn't provide an API key. Send it as 'Authorization: Bearer KEY', or from a browser as the "
                f"WebSocket subprotocol '{KEY_SUBPROTOCOL}KEY' next to 'realtime'.",
            )
        name = self._access.keys.name_of(key)
        if name is None:
            raise Refused(401, "invalid_api_key", "Incorrect API key provided.")
        return Caller(name)

    def _ephemeral(self, key: str, path: str) -> Caller:
        secret = self._secrets.find(key)
        if secret is None:
            message = "Incorrect or expired ephemeral key provided. Ask the application's server for a new one."
            raise Refused(401, "invalid_api_key", message)
        if path not in EPHEMERAL:
            raise Refused(403, "insufficient_permissions", "An ephemeral key opens realtime sessions and nothing else.")
        return Caller(secret.issuer, secret.session)

    @staticmethod
    def _open(headers: Headers, allowed: Collection[str]) -> Caller:
        origin = headers.get("origin")
        if not may_use(origin, headers.get("host"), allowed):
            message = (
                f"Pages of {origin} may not use this server, which asks for no API key. Add the origin to "
                "server.allowed_origins, or set server.api_keys."
            )
            raise Refused(403, "origin_not_allowed", message)
        return Caller()


def presented_key(headers: Headers, subprotocols: Sequence[str]) -> str | None:
    """The key in the ``Authorization`` header, or else in a subprotocol."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    offered = (name.removeprefix(KEY_SUBPROTOCOL) for name in subprotocols if name.startswith(KEY_SUBPROTOCOL))
    return next((key for key in offered if key), None)
