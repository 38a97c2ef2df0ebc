"""Where values come from: YAML text with its line numbers, the environment, the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final, Literal

import yaml

from voice_omni.proto.errors import OmniError

ENVIRONMENT_PREFIX: Final = "VOICE_OMNI__"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was said: the default, a line of a file, an environment variable or the command line."""

    kind: Literal["default", "file", "environment", "command line"]
    where: str = ""
    line: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "file":
                return f"{self.where}:{self.line}"
            case "environment":
                return f"environment variable {self.where}"
            case kind:
                return kind

    def at(self, node: yaml.Node) -> Origin:
        """The same source, at the line of a node if it is a file."""
        return Origin(self.kind, self.where, node.start_mark.line + 1) if self.kind == "file" else self


DEFAULT: Final = Origin("default")


@dataclass(frozen=True, slots=True)
class Said:
    """One statement of a source: at this path stands this value.

    ``text`` is the value as typed, for a source that cannot quote (a shell has taken the quotes already).
    ``folds``: names are compared without regard to case, as environment variables are written in capitals.
    """

    path: tuple[str, ...]
    node: yaml.Node
    origin: Origin
    text: str | None = None
    folds: bool = False


def from_file(path: FilePath) -> list[Said]:
    """The whole file as one statement at the root; none if it is empty.

    Raises :class:`OmniError` ``invalid_config`` if it cannot be read or is no YAML mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OmniError("invalid_config", f"cannot read the configuration {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OmniError("invalid_config", f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise OmniError("invalid_config", f"{path}:{line}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise OmniError("invalid_config", f"{path}: not valid YAML: {error}") from error
    return [] if node is None else [Said((), node, Origin("file", str(path)))]


def from_environment(environ: Mapping[str, str]) -> list[Said]:
    """``VOICE_OMNI__SERVER__PORT=9000`` says ``server.port``: the prefix, then the path joined by two underscores."""
    return [
        _typed(tuple(name.removeprefix(ENVIRONMENT_PREFIX).split("__")), text, Origin("environment", name), folds=True)
        for name, text in sorted(environ.items())
        if name.startswith(ENVIRONMENT_PREFIX)
    ]


def from_overrides(overrides: Sequence[str]) -> list[Said]:
    """``stages.thinker.options.temperature=0.2``, a path and a value, later ones winning."""
    said = []
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise OmniError("invalid_config", f"'{override}' on the command line: it must be KEY=VALUE", param=key)
        said.append(_typed(tuple(key.strip().split(".")), text, Origin("command line")))
    return said


def _typed(path: tuple[str, ...], text: str, origin: Origin, *, folds: bool = False) -> Said:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        node = None  # it can still be meant as plain text
    if node is None:
        node = yaml.ScalarNode("tag:yaml.org,2002:str", text, _START, _START, style='"')
    return Said(path, node, origin, text, folds)


_START: Final = yaml.Mark("", 0, 0, 0, None, 0)
