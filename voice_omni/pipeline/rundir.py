"""The folder that holds everything a running pipeline leaves on the host: sockets and shared memory."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "voice-omni-"
_LOCK: Final = "lock"


class RunDir:
    """Made in memory where the host has such a file system. Locked while its owner lives, so that the next start can
    tell what a killed owner has left, and remove it."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or _default_base()
        _sweep(self._base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._base))
        unlocked = self.path / f"{_LOCK}.new"
        self._lock = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under its name only once it is held: another start that finds it free takes the folder for an orphan's.
        unlocked.rename(self.path / _LOCK)

    def remove_of(self, node: str, incarnation: int) -> None:
        """Remove what a dead process has left; the files of the others stay."""
        for left in (*self.path.glob(f"{node}.{incarnation}.sock"), *self.path.glob(f"*@{node}.{incarnation}.relay")):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _default_base() -> Path:
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR)
        except OSError:
            continue  # another user's, or one that is being made or removed just now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # its owner lives
        finally:
            os.close(lock)
