"""Addresses of the Realtime endpoint."""

from __future__ import annotations

import pytest

from voice_omni.cli.realtime_client import session_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8000", "ws://127.0.0.1:8000/v1/realtime?include=timings"),
        ("127.0.0.1:8000", "ws://127.0.0.1:8000/v1/realtime?include=timings"),
        ("ws://[::1]:8000/", "ws://[::1]:8000/v1/realtime?include=timings"),
        ("https://voice.example/behind/proxy", "wss://voice.example/behind/proxy?include=timings"),
        ("wss://voice.example/v1/realtime?model=m", "wss://voice.example/v1/realtime?model=m&include=timings"),
    ],
)
def test_an_address_is_completed(url: str, address: str) -> None:
    assert session_url(url) == address
