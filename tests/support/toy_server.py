"""A server with the toy pipeline, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

_ROOT = Path(__file__).parents[2]
_CODE = """
import asyncio, msgspec
from tests.support.pipelines import toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli.serve import serve_until_signal

settings = toy_settings()
server = msgspec.structs.replace(settings.server, port={port}, **{options})
asyncio.run(serve_until_signal(PIPELINE, msgspec.structs.replace(settings, server=server)))
"""


def start_toy_server(port: int = 0, **options: object) -> subprocess.Popen[str]:
    """``options``: more settings of the section ``server``."""
    return subprocess.Popen(
        [sys.executable, "-c", _CODE.format(port=port, options=options)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(server: subprocess.Popen[str], stream: Literal["stdout", "stderr"], beginning: str) -> list[str]:
    """The lines of a server's output up to one that begins like this."""
    lines: list[str] = []
    for line in getattr(server, stream):
        lines.append(line.rstrip("\n"))
        if line.startswith(beginning):
            return lines
    output, errors = server.communicate()
    raise AssertionError(f"no line of {stream} begins with {beginning!r}: {lines}\n{output}\n{errors}")


def address(server: subprocess.Popen[str]) -> str:
    """Where it listens, once it does."""
    return read_until(server, "stdout", "listening")[-1].split()[1]
