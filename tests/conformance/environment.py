"""The clients, as their registries have them, in an environment of their own: their pins are not this project's.

It is made once for each set of pins and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

HERE: Final = Path(__file__).parent
PYTHON_PINS: Final = HERE / "python" / "requirements.txt"
JS_PINS: Final = HERE / "js" / "package-lock.json"


@dataclass(frozen=True)
class Environment:
    """``python``: an interpreter with the Python clients, and ``node`` beside it, so that none need be installed.
    ``js``: a folder with the drivers beside their modules."""

    python: Path
    js: Path

    @property
    def node(self) -> Path:
        return self.python.with_name("node")


def prepare() -> Environment:
    """The environment for the pins in this folder. Needs the registries the first time."""
    pins = PYTHON_PINS.read_bytes() + JS_PINS.read_bytes() + sys.version.encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voice-omni" / "conformance"
    folder = cache / hashlib.sha256(pins).hexdigest()[:16]
    environment = Environment(folder / "venv" / "bin" / "python", folder / "js")
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(environment)
            complete.touch()
        for driver in (HERE / "js").glob("*.mjs"):
            shutil.copy(driver, environment.js)
    return environment


def _install(environment: Environment) -> None:
    venv = environment.python.parent.parent
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([environment.python, "-m", "pip", "install", "--quiet", "uv"], check=True)
    options = ["--quiet", "--no-cache", "--python", str(environment.python)]
    subprocess.run([environment.python, "-m", "uv", "pip", "sync", *options, PYTHON_PINS], check=True)
    environment.js.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "js" / name, environment.js)
    subprocess.run(
        [environment.node.with_name("npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
        cwd=environment.js,
        env={**os.environ, "PATH": f"{environment.node.parent}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
