"""SGLang on a CPU, in an environment of its own: its pins are not this project's.

It is made once for each set of pins and kept in the user's cache. ``sglang`` is installed without its dependencies,
most of which are CUDA libraries; ``requirements.txt`` has what its scheduler imports. ``stand_ins`` has what cannot
be installed without CUDA, or is imported and never used: empty modules.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from filelock import FileLock

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
PINS: Final = HERE / "requirements.txt"
TORCH: Final = "torch==2.13.0"
"""By pip, as everywhere in this project: a resolver that looks for itself takes a build with CUDA."""


class UnreachableError(Exception):
    """The package index cannot be reached."""


def prepare() -> Path:
    """An interpreter with the pins in this folder. Raises :class:`UnreachableError`."""
    pins = PINS.read_bytes() + TORCH.encode() + sys.version.encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voice-omni" / "sglang"
    folder = cache / hashlib.sha256(pins).hexdigest()[:16]
    python = folder / "bin" / "python"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, python)
            complete.touch()
    return python


def _install(folder: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([*pip, "install", "--no-cache-dir", "--no-deps", "uv", TORCH], check=True)
        uv = [python, "-m", "uv", "pip", "install", "--quiet", "--no-cache", "--python", python]
        subprocess.run([*uv, "--no-deps", "-r", PINS], check=True)
    except subprocess.CalledProcessError as error:
        found = subprocess.run([*pip, "index", "versions", "sglang"], capture_output=True, check=False)
        if found.returncode:
            raise UnreachableError(found.stderr.decode(errors="replace")) from error
        raise


def variables() -> dict[str, str]:
    """What the interpreter of :func:`prepare` needs in its environment to import SGLang and this project."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HERE / "stand_ins")))}
