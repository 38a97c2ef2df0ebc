"""Fetching a repository of the Hugging Face hub through its own library and into its own cache.

So a checkpoint that another tool has downloaded already is used where it is, and ``HF_HOME``, ``HF_ENDPOINT``,
``HF_TOKEN`` and ``HF_HUB_OFFLINE`` mean what they mean everywhere. Done here is what the library leaves out: each
file's content is checked against the hash that names its blob, and a checkpoint without all its shards is noticed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any

from tqdm.auto import tqdm

from voice_omni import __version__
from voice_omni.proto.errors import OmniError
from voice_omni.weights.cache import NO_SPACE, files_in, sha256_of
from voice_omni.weights.declaration import HubSource, Weights
from voice_omni.weights.failures import unavailable


def link_snapshot(
    weights: Weights, source: HubSource, folder: Path, *, offline: bool, refresh: bool, quiet: bool
) -> str:
    """Fill ``folder`` with links to the files of one snapshot, fetched first where the hub's cache lacks them.

    A snapshot in that cache is taken as it is unless ``refresh``. Returns ``hf:ORG/REPO@COMMIT``. Raises
    ``weights_unavailable`` or ``weights_corrupt``.
    """
    snapshot = None if refresh and not offline else _cached(weights, source)
    if snapshot is None:
        if offline:
            tried = ["the hub's cache: lacks files", "the hub: not asked because VOICE_OMNI_OFFLINE is set"]
            raise unavailable(weights, tried)
        snapshot = _downloaded(weights, source, force=refresh, quiet=quiet)
    selected = weights.select(files_in(snapshot))
    if missing := _missing_shards(snapshot, selected):
        raise OmniError("weights_corrupt", f"weights {weights.name!r}: {weights.source} lacks {', '.join(missing)}")
    for name, path in selected.items():
        _check(weights, snapshot / path)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(snapshot / path)
    return f"hf:{source.repository}@{snapshot.name}"


def _cached(weights: Weights, source: HubSource) -> Path | None:
    """The snapshot in the hub's cache, if it is there with all the files; another tool may have fetched only some."""
    # Imported here: it takes a quarter of a second, and most runs find everything in our own cache.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot = Path(
            snapshot_download(
                source.repository, revision=source.revision, allow_patterns=_patterns(weights), local_files_only=True
            )
        )
        selected = weights.select(files_in(snapshot))
    except (LocalEntryNotFoundError, OmniError):
        return None
    return None if _missing_shards(snapshot, selected) else snapshot


def _downloaded(weights: Weights, source: HubSource, *, force: bool, quiet: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of the HTTP library that it uses

    try:
        return Path(
            snapshot_download(
                source.repository,
                revision=source.revision,
                allow_patterns=_patterns(weights),
                force_download=force,
                library_name="voice-omni",
                library_version=__version__,
                tqdm_class=_NoBar if quiet else None,
            )
        )
    except (OSError, HTTPError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        raise unavailable(weights, [f"the hub: {error}"]) from error


def _patterns(weights: Weights) -> list[str]:
    return [f"{weights.folder}/{pattern}" if weights.folder else pattern for pattern in weights.files]


def _missing_shards(snapshot: Path, selected: dict[str, str]) -> list[str]:
    """A sharded checkpoint's ``*.index.json`` maps each tensor to its file, in ``weight_map``."""
    missing: set[str] = set()
    for path in selected.values():
        if path.endswith(".index.json"):
            index: dict[str, Any] = json.loads((snapshot / path).read_bytes())
            folder = PurePosixPath(path).parent
            missing |= {str(folder / shard) for shard in index.get("weight_map", {}).values()}
    return sorted(missing - set(selected.values()))


def _check(weights: Weights, file: Path) -> None:
    """Compare a file with its blob's name: a SHA-256 for large files, git's blob hash for small ones."""
    if not file.is_symlink():
        return  # a cache on a file system without links does not keep the hash
    expected = file.readlink().name
    if len(expected) == 64:
        actual = sha256_of(file)
    else:
        content = file.read_bytes()
        actual = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if actual != expected:
        raise OmniError(
            "weights_corrupt",
            f"weights {weights.name!r}: {file} has hash {actual} instead of {expected}; "
            f"run 'voice-omni models fetch --force {weights.name}'",
        )


class _NoBar(tqdm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "disable": True})
