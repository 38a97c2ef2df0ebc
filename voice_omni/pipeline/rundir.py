"""The folder that holds everything a running pipeline leaves on the host: sockets and shared memory."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

import zmq

from voice_omni.proto.errors import OmniError

_PREFIX: Final = "voice-omni-"
_LOCK: Final = "lock"
_ALIAS: Final = "run"

SHORT: Final = Path("/tmp")
"""Where a way to a folder is made that is too long for sockets. Not ``$TMPDIR``, which may be what is too long."""

_LAST_INCARNATION: Final = 999_999
"""Names leave room for this many restarts of one process, which at the longest pause by default take a year."""


def socket_name(node: str, incarnation: int) -> str:
    """The file name of a node's control socket."""
    return f"{node}.{incarnation}.sock"


class RunDir:
    """Made in memory where the host has such a file system, or in ``base``.

    ``nodes``: who will have a socket in it. The path of a Unix socket is bounded (107 bytes on Linux): where one of
    theirs would be longer, :attr:`path` is a short name for the folder, a link in a private folder of its own in
    ``short``. Raises :class:`OmniError` ``invalid_config`` if a node's name is too long even for that.
    """

    def __init__(self, base: Path | None = None, nodes: Collection[str] = (), short: Path = SHORT) -> None:
        sockets = [socket_name(node, _LAST_INCARNATION) for node in nodes]
        longest = max(sockets, key=_length, default="")
        self._folders = [_Folder(base or _default_base())]
        self.path = self._folders[0].path
        if _fits(self.path / longest):
            return
        try:
            self._folders.append(_Folder(short))
            alias = self._folders[1].path / _ALIAS
            if not _fits(alias / longest):
                raise OmniError("invalid_config", _too_long(self.path, alias, longest))
            alias.symlink_to(self.path.absolute(), target_is_directory=True)
        except BaseException:
            self.close()
            raise
        self.path = alias

    def remove_of(self, node: str, incarnation: int) -> None:
        """Remove what a dead process has left; the files of the others stay."""
        mine = (socket_name(node, incarnation), f"*@{node}.{incarnation}.relay")
        for left in (path for pattern in mine for path in self.path.glob(pattern)):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        for folder in reversed(self._folders):
            folder.close()


class _Folder:
    """A private folder. Locked while its owner lives, so that the next start can tell what a killed owner has left,
    and remove it."""

    def __init__(self, base: Path) -> None:
        _sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        unlocked = self.path / f"{_LOCK}.new"
        self._lock = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under its name only once it is held: another start that finds it free takes the folder for an orphan's.
        unlocked.rename(self.path / _LOCK)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _default_base() -> Path:
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _length(path: str | Path) -> int:
    return len(os.fsencode(path))


def _fits(socket: Path) -> bool:
    return _length(socket) <= zmq.IPC_PATH_MAX_LEN


def _too_long(folder: Path, alias: Path, socket: str) -> str:
    limit, shortest = zmq.IPC_PATH_MAX_LEN, _length(alias / socket)
    return (
        f"the path of the socket {socket} has {_length(folder / socket)} bytes in the run's folder {folder} "
        f"({_length(folder)} bytes), and {shortest} by the short way {alias}; a Unix socket has {limit} at most. "
        f"Shorten the name of this process in the section 'processes' by {shortest - limit} bytes or more"
    )


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        try:
            if folder.lstat().st_uid != os.geteuid():
                continue  # another user's, who sweeps it; where everybody may write, it may also be a trap
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # one that is being made or removed just now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # its owner lives
        finally:
            os.close(lock)
