"""From the sources to settings: defaults, then the file, then the environment, then the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from voice_omni.config.placement import placement_faults
from voice_omni.config.read import HIDDEN, Assigned, Problem, read
from voice_omni.config.schema import REQUIRED, Group, Leaf, Named, Node, Path, schema_of
from voice_omni.config.settings import Settings
from voice_omni.config.sources import DEFAULT, Origin, Said, from_environment, from_file, from_overrides
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError

_PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Value:
    """One resolved value: what it is, what it means and who said so. A secret one does not say what it is."""

    path: Path
    value: Any
    meaning: str
    origin: Origin

    @property
    def key(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings and, for every value of them, where it came from."""

    settings: Settings
    values: tuple[Value, ...]

    def origin(self, key: str) -> Origin:
        """Where the value at a dotted key came from; ``KeyError`` if there is none."""
        for value in self.values:
            if value.key == key:
                return value.origin
        raise KeyError(key)


def pipeline_name(
    path: FilePath | None, overrides: Sequence[str], environ: Mapping[str, str], default: str = "starter"
) -> str:
    """The pipeline that the sources ask for, before it is known what else may be set."""
    name = default
    for said in _sources(path, overrides, environ):
        for finding in read(Group(Settings, {"pipeline": Leaf(str, default, "")}), said):
            if isinstance(finding, Assigned):
                name = finding.value
    return name


def load(spec: PipelineSpec, path: FilePath | None, overrides: Sequence[str], environ: Mapping[str, str]) -> Resolved:
    """Resolve a pipeline's settings.

    ``path``: a YAML file or None. ``overrides``: ``KEY=VALUE`` texts of the command line. ``environ``: the
    environment, of which names that start with ``VOICE_OMNI__`` count. Raises :class:`OmniError` ``invalid_config``
    that lists every problem: the key, the value, where it was said and what would be right.
    """
    schema = schema_of(spec)
    problems: list[Problem] = []
    said_by_key = _default_processes(spec)
    for said in _sources(path, overrides, environ):
        names = {key[:2] for key in said_by_key if key[0] == _PROCESSES}
        findings = list(read(schema, said, names))
        if said.origin.kind == "file" and any(finding.path[:1] == (_PROCESSES,) for finding in findings):
            # A file lays the stages out as a whole; the other sources change the layout that stands.
            said_by_key = {key: value for key, value in said_by_key.items() if key[0] != _PROCESSES}
        problems += [finding for finding in findings if isinstance(finding, Problem)]
        said_by_key |= {finding.path: finding for finding in findings if isinstance(finding, Assigned)}
    chosen = said_by_key.get(("pipeline",))
    if chosen is None:
        said_by_key[("pipeline",)] = Assigned(("pipeline",), spec.name, DEFAULT)
    elif chosen.value != spec.name:
        what = f"is '{chosen.value}'; it must be '{spec.name}', the pipeline that runs"
        problems.append(Problem(chosen.path, what, chosen.origin))
    _raise(problems)

    builder = _Builder(said_by_key)
    settings = builder.build(schema, ())
    _raise(builder.problems)
    problems = [Problem(at, what, builder.origin(at)) for at, what in placement_faults(spec, settings.processes)]
    _raise(problems)
    return Resolved(settings, tuple(builder.values))


def _sources(path: FilePath | None, overrides: Sequence[str], environ: Mapping[str, str]) -> list[Said]:
    file = from_file(path) if path is not None else []
    return [*file, *from_environment(environ), *from_overrides(overrides)]


def _default_processes(spec: PipelineSpec) -> dict[Path, Assigned]:
    paths = {stage.name: (_PROCESSES, stage.name, "stages") for stage in spec.stages}
    return {path: Assigned(path, (name,), DEFAULT) for name, path in paths.items()}


class _Builder:
    """Builds the settings bottom up from the values that were said, filling in defaults."""

    def __init__(self, said: Mapping[Path, Assigned]) -> None:
        self._said = said
        self.values: list[Value] = []
        self.problems: list[Problem] = []

    def build(self, node: Node, path: Path) -> Any:
        match node:
            case Leaf():
                return self._leaf(node, path)
            case Named(child=child):
                depth = len(path)
                names = dict.fromkeys(key[depth] for key in self._said if key[:depth] == path)
                return {name: self.build(child, (*path, name)) for name in names}
            case Group(build=cls, children=children):
                before = len(self.problems)
                content = {name: self.build(child, (*path, name)) for name, child in children.items()}
                if len(self.problems) > before:
                    return None
                try:
                    return cls(**content)
                except ValueError as error:
                    self.problems.append(Problem(path, f"does not fit together: {error}", self.origin(path)))
                    return None

    def origin(self, path: Path) -> Origin:
        """Where something was last said at a path or below it."""
        origins = [value.origin for key, value in self._said.items() if key[: len(path)] == path]
        return next((origin for origin in reversed(origins) if origin is not DEFAULT), DEFAULT)

    def _leaf(self, leaf: Leaf, path: Path) -> Any:
        said = self._said.get(path)
        value = leaf.default if said is None else said.value
        if value is REQUIRED:
            self.problems.append(Problem(path, f"is missing; it must be {leaf.expects}", self.origin(path[:-1])))
            return None
        origin = DEFAULT if said is None else said.origin
        shown = HIDDEN if leaf.secret and value != leaf.default else value
        self.values.append(Value(path, shown, leaf.meaning, origin))
        return value


def _raise(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if not found:
        return
    if len(found) == 1:
        raise OmniError("invalid_config", str(found[0]), param=".".join(found[0].path))
    listed = "\n".join(f"  {problem}" for problem in found)
    raise OmniError(
        "invalid_config", f"{len(found)} problems in the configuration:\n{listed}", param=".".join(found[0].path)
    )
