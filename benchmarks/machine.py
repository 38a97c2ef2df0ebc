"""What a figure was measured on: printed at the head of every table."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from voice_omni import __version__

_ROOT = Path(__file__).parent.parent


def describe() -> str:
    """One line: cores, processor, load, Python, version and commit (``+`` with changes that are not committed)."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{os.cpu_count()} cores, {_processor()}{load}; Python {platform.python_version()};"
        f" voice_omni {__version__} {_commit()}"
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"], cwd=_ROOT, capture_output=True, text=True
    )
    return described.stdout.strip() or "outside a repository"
