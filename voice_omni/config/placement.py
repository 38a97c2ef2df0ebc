"""Checks that go across settings: which stage lives in which process. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from voice_omni.config.read import suggestion
from voice_omni.config.schema import Path
from voice_omni.config.settings import ProcessSettings
from voice_omni.pipeline.spec import PipelineSpec

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")


def placement_faults(spec: PipelineSpec, processes: Mapping[str, ProcessSettings]) -> Iterator[tuple[Path, str]]:
    """Every fault of a placement: the path of the value at fault and what is wrong with it."""
    known = [stage.name for stage in spec.stages]
    homes: dict[str, list[str]] = {}
    for name, process in processes.items():
        at = ("processes", name)
        if not _NAME.match(name):
            yield at, "is no good name; use lower case letters, digits, '-' and '_'"
        if process.inline and process.replicas > 1:
            yield (*at, "replicas"), f"is {process.replicas}; a process that is inline exists once"
        if process.inline and process.environment:
            yield (*at, "environment"), "is of no use; a process that is inline has the server's environment"
        for stage in process.stages:
            homes.setdefault(stage, []).append(name)
            if stage not in known:
                hint = suggestion(stage, known, f"the pipeline '{spec.name}' has")
                yield (*at, "stages"), f"names '{stage}', which is no stage; {hint}"
    for stage in known:
        match homes.get(stage, []):
            case []:
                yield ("processes",), f"leaves out the stage '{stage}'; every stage needs a process"
            case [_]:
                pass
            case [first, *others]:
                yield (
                    ("processes", others[0], "stages"),
                    f"names '{stage}', which lives in '{first}' already; a stage has one process (replicas copy it)",
                )
