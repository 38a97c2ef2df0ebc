"""The cache folder: finished folders appear in it whole or not at all, however many processes build them at once.

Layout under the root::

    weights/NAME/KEY/     files as fetched, beside ``.manifest.json``
    derived/NAME/KEY/     what was converted from them, the same way
    downloads/            partial downloads, resumed by the next attempt
    locks/                one lock file per folder being built

The key is a hash of everything that decides a folder's content, so a changed declaration never meets an old folder.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

from voice_omni.proto.errors import OmniError

MANIFEST = ".manifest.json"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST})
_BLOCK = 1 << 20
_log = logging.getLogger("voice_omni.weights")

Kind = Literal["weights", "derived"]


class FileEntry(msgspec.Struct, frozen=True):
    """One file of a finished folder: its size in bytes and its SHA-256."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a finished folder holds. ``origin`` names its source, ``made_from`` the weights that it was derived from."""

    name: str
    origin: str
    files: dict[str, FileEntry]
    made_from: tuple[str, ...] = ()


def cache_root() -> Path:
    """``VOICE_OMNI_CACHE``, else the platform's cache folder for this user."""
    if override := os.environ.get("VOICE_OMNI_CACHE"):
        return Path(override).expanduser().absolute()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "voice-omni"


def key_of(*parts: str) -> str:
    """A short stable name for everything that decides a folder's content."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:20]


def folder_of(kind: Kind, name: str, key: str) -> Path:
    return cache_root() / kind / name / key


def downloads() -> Path:
    return cache_root() / "downloads"


def is_complete(folder: Path) -> bool:
    """Whether a build of the folder has finished and its files are still there; reads none of them."""
    # The folder got its name after its manifest. Its files may be links into the hub's cache, which others empty.
    try:
        return all((folder / name).is_file() for name in read_manifest(folder).files)
    except OmniError:
        return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to build ``folder``; the system releases it if this process dies."""
    locks = cache_root() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    lock = FileLock(locks / f"{folder.parent.name}-{folder.name}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        _log.info("waiting for another process that is preparing %s", folder.parent.name)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def publish(
    folder: Path, build: Callable[[Path], str], *, made_from: tuple[str, ...] = (), renew: bool = False
) -> Path:
    """Build a folder under a temporary name, write its manifest and give it its final name in one step.

    ``build`` fills the empty folder that it is given and returns the manifest's ``origin``. Returns at once if the
    folder is complete already, unless ``renew``: then the old one stays until the new one is ready. Whatever goes
    wrong, a crash and a loss of power included, leaves no unfinished folder of that name. Raises what ``build``
    raises, ``weights_no_space`` and ``cache_not_writable``.
    """
    if is_complete(folder) and not renew:
        return folder
    with _storage_errors(), locked(folder):
        if is_complete(folder) and not renew:
            return folder
        for leftover in folder.parent.glob(f".{folder.name}.*"):  # of a process that was killed
            shutil.rmtree(leftover)
        temporary = folder.with_name(f".{folder.name}.building")
        temporary.mkdir(parents=True)
        try:
            origin = build(temporary)
            files = {name: _entry(temporary / name, sync=True) for name in files_in(temporary)}
            manifest = Manifest(folder.parent.name, origin, files, made_from)
            with (temporary / MANIFEST).open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
                file.flush()
                os.fsync(file.fileno())
            _remove(folder)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return folder


def discard(folder: Path) -> None:
    """Remove a finished folder; the next :func:`publish` builds it again."""
    with _storage_errors(), locked(folder):
        _remove(folder)


def read_manifest(folder: Path) -> Manifest:
    """Raises ``weights_corrupt`` if the folder's manifest cannot be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise OmniError("weights_corrupt", f"{folder / MANIFEST}: {error}") from error


def finished(kind: Kind) -> list[Path]:
    """Every finished folder of one kind, sorted."""
    return sorted(folder for folder in (cache_root() / kind).glob("*/[!.]*") if is_complete(folder))


def damage(folder: Path) -> list[str]:
    """Read every file of a finished folder again; one line for each that differs from the manifest."""
    manifest = read_manifest(folder)
    found = set(files_in(folder))
    lines = [f"{name}: missing" for name in sorted(manifest.files.keys() - found)]
    lines += [f"{name}: not in the manifest" for name in sorted(found - manifest.files.keys())]
    for name in sorted(found & manifest.files.keys()):
        expected, entry = manifest.files[name], _entry(folder / name, sync=False)
        if entry.size != expected.size:
            lines.append(f"{name}: {entry.size} bytes instead of {expected.size}")
        elif entry.sha256 != expected.sha256:
            lines.append(f"{name}: SHA-256 {entry.sha256} instead of {expected.sha256}")
    return lines


def files_in(folder: Path) -> list[str]:
    """The relative POSIX names of all files below a folder but its manifest, sorted."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in names if name != MANIFEST)


def sha256_of(path: Path, update: Callable[[int], object] = lambda count: None) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            update(len(block))
    return digest.hexdigest()


def require_space(size: int) -> None:
    """Raises ``weights_no_space`` if the cache's disk has less than ``size`` bytes left."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(root).free < size:
        raise _no_space()


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Name the two failures of a disk that a user can mend."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise _no_space() from error
        if _unwritable(error):
            message = f"{error.filename} cannot be written; set VOICE_OMNI_CACHE to a folder of your own"
            raise OmniError("cache_not_writable", message) from error
        raise


def _unwritable(error: OSError) -> bool:
    """Whether the cache, or a folder on the way to it that would have to be made, cannot be."""
    if not isinstance(error.filename, str):
        return False
    root, path = cache_root(), Path(error.filename)
    above = root.is_relative_to(path)
    return (error.errno in _NOT_WRITABLE and (above or path.is_relative_to(root))) or (
        error.errno == errno.ENOENT and above
    )


def _no_space() -> OmniError:
    return OmniError(
        "weights_no_space",
        f"no space left in {cache_root()}; free some, or set VOICE_OMNI_CACHE to a folder on another disk",
    )


def _remove(folder: Path) -> None:
    if folder.exists():
        # Renamed first, so that a half-removed folder does not look complete.
        old = folder.with_name(f".{folder.name}.old")
        folder.rename(old)
        shutil.rmtree(old)


def _entry(path: Path, *, sync: bool) -> FileEntry:
    if sync:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return FileEntry(path.stat().st_size, sha256_of(path))
