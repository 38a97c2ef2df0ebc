"""A server with the toy pipeline, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).parents[2]
_CODE = """
import asyncio, msgspec
from tests.support.pipelines import toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli.serve import serve_until_signal

settings = toy_settings()
server = msgspec.structs.replace(settings.server, port={port})
asyncio.run(serve_until_signal(PIPELINE, msgspec.structs.replace(settings, server=server)))
"""


def start_toy_server(port: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _CODE.format(port=port)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(stream: IO[str] | None, beginning: str) -> list[str]:
    """The lines of a process's output up to one that begins like this."""
    lines: list[str] = []
    for line in stream or ():
        lines.append(line.rstrip("\n"))
        if line.startswith(beginning):
            return lines
    raise AssertionError(f"no line begins with {beginning!r}: {lines}")


def address(server: subprocess.Popen[str]) -> str:
    """Where it listens, once it does."""
    return read_until(server.stdout, "listening")[-1].split()[1]
