"""Ephemeral keys: bound to a session, short-lived, bounded."""

from __future__ import annotations

import pytest

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.settings import Session
from voice_omni.server.auth_secrets import ClientSecrets

SESSION = Session(instructions="Be brief.")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.5

    def __call__(self) -> float:
        return self.now


def test_a_key_leads_to_its_session_until_it_expires() -> None:
    clock = Clock()
    secrets = ClientSecrets(clock)
    value, secret = secrets.issue("phone", SESSION, 600)
    assert value.startswith("ek_")
    assert len(value) == 3 + 48
    assert secret.expires_at == 1600
    assert secrets.find(value) == secret
    clock.now = 1599.9
    assert secrets.find(value) == secret
    clock.now = 1600.0
    assert secrets.find(value) is None
    assert len(secrets) == 0


def test_no_two_keys_are_alike_and_none_is_guessed() -> None:
    secrets = ClientSecrets(Clock())
    values = {secrets.issue(None, SESSION, 600)[0] for _ in range(100)}
    assert len(values) == 100
    assert secrets.find("ek_" + "0" * 48) is None
    assert secrets.find(next(iter(values))[:-1]) is None


def test_their_number_is_bounded_and_expired_ones_make_room() -> None:
    clock = Clock()
    secrets = ClientSecrets(clock, limit=2)
    secrets.issue(None, SESSION, 10)
    kept, _ = secrets.issue(None, SESSION, 100)
    with pytest.raises(OmniError, match="the maximum") as caught:
        secrets.issue(None, SESSION, 10)
    assert caught.value.code == "rate_limit_exceeded"
    clock.now += 11
    secrets.issue(None, SESSION, 10)
    assert len(secrets) == 2
    assert secrets.find(kept) is not None
