"""Which pages may use a server that asks for no key."""

from __future__ import annotations

import pytest

from voice_omni.server.auth_origins import may_use


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "answer"),
    [
        (None, "voice.example", (), True),  # no browser
        ("http://localhost:3000", "localhost:8000", (), True),
        ("http://127.0.0.1:5173", "localhost:8000", (), True),
        ("https://[::1]", "localhost:8000", (), True),
        ("http://192.168.1.7:8000", "192.168.1.7:8000", (), True),  # a page that the server itself serves
        ("http://192.168.1.8:8000", "192.168.1.7:8000", (), False),
        ("http://192.168.1.7:9000", "192.168.1.7:8000", (), False),
        ("https://evil.example", "localhost:8000", (), False),
        ("http://evil.example:8000", "evil.example:8000", (), False),  # a name that was made to point here
        ("http://localhost.evil.example", "localhost:8000", (), False),
        ("https://app.example", "localhost:8000", ("https://app.example",), True),
        ("http://app.example", "localhost:8000", ("https://app.example",), False),
        ("https://evil.example", "localhost:8000", ("*",), True),
        ("null", "localhost:8000", (), False),  # a sandboxed frame of any page
        ("", "localhost:8000", (), False),
        ("http://[bad", "localhost:8000", (), False),
    ],
)
def test_pages(origin: str | None, host: str, allowed: tuple[str, ...], answer: bool) -> None:
    assert may_use(origin, host, allowed) is answer
