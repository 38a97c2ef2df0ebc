"""Which layouts of stages in processes are possible."""

from __future__ import annotations

import pytest

from voice_omni.config import ProcessSettings
from voice_omni.config.placement import placement_faults
from voice_omni.pipeline.spec import PipelineSpec


def faults(spec: PipelineSpec, **processes: ProcessSettings) -> list[tuple[str, str]]:
    return [(".".join(path), what) for path, what in placement_faults(spec, processes)]


def test_stages_may_share_a_process_or_have_their_own(spec: PipelineSpec) -> None:
    assert faults(spec, all=ProcessSettings(stages=("thinker", "talker"))) == []
    assert faults(spec, a=ProcessSettings(stages=("thinker",)), b=ProcessSettings(stages=("talker",), replicas=3)) == []


@pytest.mark.parametrize(
    ("processes", "at", "what"),
    [
        ({"a": ProcessSettings(stages=("thinker",))}, "processes", "leaves out the stage 'talker'"),
        (
            {"a": ProcessSettings(stages=("thinker", "talker")), "b": ProcessSettings(stages=("talker",))},
            "processes.b.stages",
            "names 'talker', which lives in 'a' already",
        ),
        (
            {"a": ProcessSettings(stages=("thinker", "talker", "talker"))},
            "processes.a.stages",
            "names 'talker', which lives in 'a' already",
        ),
        (
            {"a": ProcessSettings(stages=("thinker", "talker", "walker"))},
            "processes.a.stages",
            "names 'walker', which is no stage; did you mean 'talker'?",
        ),
        (
            {"a": ProcessSettings(stages=("thinker", "talker"), inline=True, replicas=2)},
            "processes.a.replicas",
            "is 2; a process that is inline exists once",
        ),
        (
            {"a": ProcessSettings(stages=("thinker", "talker"), inline=True, environment={"NAME": "value"})},
            "processes.a.environment",
            "is of no use; a process that is inline has the server's environment",
        ),
        ({"A b": ProcessSettings(stages=("thinker", "talker"))}, "processes.A b", "is no good name"),
    ],
)
def test_an_impossible_layout_names_the_value_at_fault(
    spec: PipelineSpec, processes: dict[str, ProcessSettings], at: str, what: str
) -> None:
    [(path, fault)] = faults(spec, **processes)
    assert path == at
    assert what in fault
