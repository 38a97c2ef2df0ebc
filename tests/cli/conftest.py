"""Servers for the commands to talk to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.support.toy_server import start_toy_server


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts toy servers that end with the test at the latest."""
    started: list[subprocess.Popen[str]] = []

    def start(port: int = 0, **options: object) -> subprocess.Popen[str]:
        started.append(start_toy_server(port, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
