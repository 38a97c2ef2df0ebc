"""A run of tests in a process, and perhaps an environment, of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_MOST_S: Final = 1200


def passes(command: Sequence[str | Path], environment: Mapping[str, str], advice: str) -> None:
    """Run it in the project's folder and print its report; fails with ``advice`` if it does."""
    run = subprocess.run(
        command,
        cwd=_ROOT,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_MOST_S,
        check=False,
    )
    sys.stdout.write(run.stdout)
    assert run.returncode == 0, advice
