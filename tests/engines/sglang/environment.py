"""SGLang on a CPU, in environments of its own: its pins are not this project's.

``pins`` has two releases: the one that the ``sglang`` extra installs, and the newest that the adapter is known to run
on. Each is a thin environment over a common one. It has ``sglang``, without its dependencies, most of which are CUDA
libraries, and what it pins itself; ``common.txt`` has the rest of what its scheduler imports. ``stand_ins`` has what
cannot be installed without CUDA, or is imported and never used: empty modules.

An environment is made once for each set of pins and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
COMMON: Final = HERE / "pins" / "common.txt"
PINNED: Final = HERE / "pins" / "pinned.txt"
NEWEST: Final = HERE / "pins" / "newest.txt"
TORCH: Final = "torch==2.13.0"
"""By pip, as everywhere in this project: a resolver that looks for itself takes a build with CUDA."""


class UnreachableError(Exception):
    """The package index cannot be reached."""


def prepare(release: Path = PINNED) -> Path:
    """An interpreter with the pins of ``release``. Raises :class:`UnreachableError`."""
    common = _kept(_base(), _install_common)
    layer = _kept(_base() + release.read_bytes(), lambda folder: _install_release(folder, common, release))
    return _python(layer)


def prepare_common() -> Path:
    """An interpreter without SGLang, with what both releases share: torch, Triton and pytest among it. Raises
    :class:`UnreachableError`."""
    return _python(_kept(_base(), _install_common))


def variables() -> dict[str, str]:
    """What an interpreter of :func:`prepare` needs in its environment to import SGLang and this project.

    SGLang imports some thousand modules, and compiling them takes as long as running them. So bytecode is kept, beside
    the environments.
    """
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HERE / "stand_ins"))),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(_cache() / "bytecode"),
    }


def _base() -> bytes:
    """What the common environment depends on."""
    return COMMON.read_bytes() + TORCH.encode() + sys.version.encode()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voice-omni" / "sglang"


def _kept(contents: bytes, install: Callable[[Path], None]) -> Path:
    """The folder for these contents, made by ``install`` if need be. Other processes wait meanwhile."""
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / hashlib.sha256(contents).hexdigest()[:16]
    with FileLock(f"{folder}.lock"):
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            install(folder)
            complete.touch()
    return folder


def _install_common(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    _run(folder, "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "uv", TORCH)
    _add(folder, folder, COMMON)


def _install_release(folder: Path, common: Path, release: Path) -> None:
    """Its own packages are found first, and then those of ``common``."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (_packages(folder) / "common.pth").write_text(f"{_packages(common)}\n")
    _add(common, folder, release)


def _add(common: Path, folder: Path, pins: Path) -> None:
    into = ("--python", _python(folder))
    _run(common, "uv", "pip", "install", "--quiet", "--no-cache", "--no-deps", *into, "-r", pins)


def _run(folder: Path, module: str, *arguments: str | Path) -> None:
    python = _python(folder)
    try:
        subprocess.run([python, "-m", module, *arguments], check=True)
    except subprocess.CalledProcessError as error:
        index = [python, "-m", "pip", "--disable-pip-version-check", "index", "versions", "sglang"]
        found = subprocess.run(index, capture_output=True, check=False)
        if found.returncode:
            raise UnreachableError(found.stderr.decode(errors="replace")) from error
        raise


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
