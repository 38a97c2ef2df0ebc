"""What a pipeline's declaration implies: who feeds whom on a route. Pure; knows no process and no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from voice_omni.pipeline.spec import PipelineSpec, StageSpec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import CLIENT

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_RUNNER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a stage waits for on one route.

    ``payload``: the stages whose results it needs before it begins. ``stream``: who streams chunks into it, in the
    pipeline's order, ``"client"`` last.
    """

    payload: tuple[str, ...]
    stream: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a stage's output goes on one route; ``"client"`` stands last in both for a terminal stage."""

    payload: tuple[str, ...]
    stream: tuple[str, ...]


class Topology:
    """The routes of a valid pipeline, ready to be asked.

    Raises :class:`OmniError` ``invalid_pipeline`` that lists every fault of the declaration.
    """

    def __init__(self, spec: PipelineSpec) -> None:
        faults = find_faults(spec)
        if faults:
            listed = "\n".join(f"  {fault}" for fault in faults)
            raise OmniError("invalid_pipeline", f"the pipeline '{spec.name}' is declared wrongly:\n{listed}")
        self.spec = spec
        self._order = tuple(stage.name for stage in spec.stages)

    def stages_of(self, route: str) -> tuple[str, ...]:
        """The route's stages in the order in which the pipeline declares them.

        Raises :class:`OmniError` ``unsupported_route`` for a route that the pipeline does not have.
        """
        members = self.spec.routes.get(route)
        if members is None:
            known = ", ".join(sorted(self.spec.routes))
            raise OmniError(
                "unsupported_route", f"the pipeline '{self.spec.name}' has no route '{route}', only: {known}"
            )
        return tuple(name for name in self._order if name in members)

    def sources(self, stage: str, route: str) -> Sources:
        members = [self.spec.stage(name) for name in self.stages_of(route)]
        client = (CLIENT,) if self.spec.stage(stage).input_stream else ()
        return Sources(
            payload=tuple(member.name for member in members if stage in member.payload_to),
            stream=tuple(member.name for member in members if stage in member.stream_to) + client,
        )

    def targets(self, stage: str, route: str) -> Targets:
        members = self.stages_of(route)
        spec = self.spec.stage(stage)
        client = (CLIENT,) if spec.terminal else ()
        return Targets(
            payload=tuple(name for name in members if name in spec.payload_to) + client,
            stream=tuple(name for name in members if name in spec.stream_to) + client,
        )

    def entries(self, route: str) -> tuple[str, ...]:
        """The stages that the coordinator opens itself: no other stage feeds them, or the client does."""
        inputs = self.inputs(route)
        return tuple(name for name in self.stages_of(route) if name in inputs or not self.feeders(name, route))

    def feeders(self, stage: str, route: str) -> tuple[str, ...]:
        """The other stages that send to this one, by either kind of edge."""
        sources = self.sources(stage, route)
        return tuple(name for name in (*sources.payload, *sources.stream) if name != CLIENT)

    def inputs(self, route: str) -> tuple[str, ...]:
        """The stages that the client streams into."""
        return tuple(name for name in self.stages_of(route) if self.spec.stage(name).input_stream)

    def terminals(self, route: str) -> tuple[str, ...]:
        """The stages whose chunks and results go to the client; a request is complete when all of them are."""
        return tuple(name for name in self.stages_of(route) if self.spec.stage(name).terminal)


def find_faults(spec: PipelineSpec) -> list[str]:
    """Every fault of a declaration as a sentence; an empty list for a valid one."""
    names = [stage.name for stage in spec.stages]
    known = set(names)
    faults = [] if names else ["it has no stages"]
    faults += [f"the stage '{name}' is declared {names.count(name)} times" for name in _repeated(names)]
    for stage in spec.stages:
        faults += _stage_faults(stage, known)
    for label, rate in (("input", spec.input_sample_rate), ("output", spec.output_sample_rate)):
        if rate <= 0:
            faults.append(f"{label}_sample_rate is {rate}; it must be positive")
    if not spec.voices:
        faults.append("it declares no voices")
    if faults:
        return faults  # routes of a graph that is itself wrong would only repeat its faults
    cycle = _cycle(spec.stages)
    if cycle:
        return [f"its edges form a cycle: {' -> '.join(cycle)}"]
    if not spec.routes:
        faults.append("it has no routes")
    for route, members in spec.routes.items():
        faults += [f"route '{route}': {fault}" for fault in _route_faults(spec, members)]
    return faults


def _stage_faults(stage: StageSpec, known: set[str]) -> Iterable[str]:
    at = f"stage '{stage.name}'"
    if not _NAME.match(stage.name) or stage.name == CLIENT:
        yield f"{at}: a name is lower case letters, digits and underscores, and not '{CLIENT}'"
    if not _RUNNER.match(stage.runner):
        yield f"{at}: runner is '{stage.runner}'; it must be 'package.module:function'"
    yield from (f"{at}: {fault}" for fault in _options_faults(stage.options))
    for kind, targets in (("payload_to", stage.payload_to), ("stream_to", stage.stream_to)):
        yield from (f"{at}: {kind} names '{name}' twice" for name in _repeated(targets))
        yield from (f"{at}: {kind} names '{name}', which is no stage" for name in targets if name not in known)


def _options_faults(options: type[Any]) -> Iterable[str]:
    if not (isinstance(options, type) and issubclass(options, msgspec.Struct)):
        yield f"options is {options!r}; it must be a msgspec Struct class"
        return
    required = [item.name for item in msgspec.structs.fields(options) if item.required]
    if required:
        yield f"options {options.__name__} has fields without a default: {', '.join(required)}"
    try:
        msgspec.inspect.type_info(options)
    except TypeError as error:
        yield f"options {options.__name__} cannot be read from settings: {error}"


def _route_faults(spec: PipelineSpec, members: Sequence[str]) -> Iterable[str]:
    known = {stage.name for stage in spec.stages}
    if not members:
        yield "it has no stages"
        return
    faults = [f"it names '{name}', which is no stage" for name in members if name not in known]
    faults += [f"it names '{name}' twice" for name in _repeated(members)]
    if faults:
        yield from faults
        return
    stages = [stage for stage in spec.stages if stage.name in members]
    if not any(stage.terminal for stage in stages):
        yield "it has no terminal stage, so nothing reaches the client"
    for stage in stages:
        if not stage.terminal and not any(target in members for target in stage.payload_to + stage.stream_to):
            yield f"the output of '{stage.name}' goes nowhere: it is not terminal and no edge leaves it on this route"
    stranded = _stranded(stages)
    if stranded:
        yield f"no edge connects {_quoted(stranded)} with '{stages[0].name}'"


def _stranded(stages: Sequence[StageSpec]) -> list[str]:
    """The stages of a route that no path, in any direction, connects with its first one."""
    neighbours: dict[str, set[str]] = {stage.name: set() for stage in stages}
    for stage in stages:
        for target in stage.payload_to + stage.stream_to:
            if target in neighbours:
                neighbours[stage.name].add(target)
                neighbours[target].add(stage.name)
    reached: set[str] = set()
    frontier = [stages[0].name]
    while frontier:
        name = frontier.pop()
        if name not in reached:
            reached.add(name)
            frontier.extend(neighbours[name])
    return [stage.name for stage in stages if stage.name not in reached]


def _cycle(stages: Sequence[StageSpec]) -> list[str]:
    """One cycle of the graph, its first stage repeated at the end; empty if there is none."""
    targets = {stage.name: stage.payload_to + stage.stream_to for stage in stages}
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in targets[name]:
            found = walk(target, [*path, name])
            if found:
                return found
        done.add(name)
        return []

    for stage in stages:
        found = walk(stage.name, [])
        if found:
            return found
    return []


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
