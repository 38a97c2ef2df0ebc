"""Ephemeral keys: short-lived, each with the session that it opens. They live in this process's memory alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.settings import Session
from voice_omni.server.auth_keys import EPHEMERAL_PREFIX, digest

MAX_SECRETS: Final = 10_000
"""Ephemeral keys that may be valid at the same time."""
MIN_LIFE_S: Final = 10
MAX_LIFE_S: Final = 7200
DEFAULT_LIFE_S: Final = 600


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """``issuer``: the name of the key with which it was made; None where no key is asked for.

    ``session``: the settings with which its sessions begin. ``expires_at``: Unix time.
    """

    issuer: str | None
    session: Session
    expires_at: int


class ClientSecrets:
    """The ephemeral keys that are valid. Until one expires it opens any number of sessions."""

    def __init__(
        self,
        wall_clock: Callable[[], float],
        *,
        limit: int = MAX_SECRETS,
        token: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        self._clock = wall_clock
        self._limit = limit
        self._token = token
        # By digest: whoever guesses cannot learn from the time of a lookup how far the guess was right.
        self._secrets: dict[bytes, ClientSecret] = {}

    def __len__(self) -> int:
        return len(self._secrets)

    def issue(self, issuer: str | None, session: Session, seconds: int) -> tuple[str, ClientSecret]:
        """A new key and what belongs to it. Raises :class:`OmniError` ``rate_limit_exceeded``."""
        now = self._clock()
        if len(self._secrets) >= self._limit:
            self._secrets = {key: secret for key, secret in self._secrets.items() if secret.expires_at > now}
        if len(self._secrets) >= self._limit:
            message = f"{self._limit} ephemeral keys are valid, the maximum. Try again when some have expired."
            raise OmniError("rate_limit_exceeded", message, retryable=True)
        value = EPHEMERAL_PREFIX + self._token(24)
        secret = ClientSecret(issuer, session, int(now) + seconds)
        self._secrets[digest(value)] = secret
        return value, secret

    def find(self, value: str) -> ClientSecret | None:
        """What belongs to a key; None when there is no such key or it has expired."""
        key = digest(value)
        secret = self._secrets.get(key)
        if secret is not None and secret.expires_at <= self._clock():
            del self._secrets[key]
            return None
        return secret
