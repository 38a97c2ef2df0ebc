"""What a pipeline's declaration implies, and which declarations are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
import pytest

from voice_omni.pipeline.spec import PipelineSpec, StageSpec
from voice_omni.pipeline.topology import Sources, Targets, Topology, find_faults
from voice_omni.proto.errors import OmniError


class Options(msgspec.Struct):
    size: int = 1


class Needy(msgspec.Struct):
    size: int


class Unreadable(msgspec.Struct):
    size: Annotated[int | None, msgspec.Meta(ge=0)] = None


ENCODER = StageSpec("encoder", "simple", "m:encoder", Options, ("thinker",), terminal=True, input_stream=True)
THINKER = StageSpec("thinker", "omni", "m:thinker", Options, stream_to=("talker",), terminal=True)
TALKER = StageSpec("talker", "simple", "m:talker", Options, stream_to=("code2wav",))
CODE2WAV = StageSpec("code2wav", "code2wav", "m:code2wav", Options, terminal=True)
SPEC = PipelineSpec(
    name="chain",
    description="four stages",
    stages=(ENCODER, THINKER, TALKER, CODE2WAV),
    routes={
        "speech": ("encoder", "thinker", "talker", "code2wav"),
        "text_text": ("thinker",),
        "speak": ("code2wav", "talker"),
    },
    input_sample_rate=16000,
    output_sample_rate=22050,
)


def with_stage(stage: StageSpec) -> PipelineSpec:
    """The chain with one of its stages declared differently."""
    return replace(SPEC, stages=tuple(stage if old.name == stage.name else old for old in SPEC.stages))


def test_a_route_lists_its_stages_in_the_pipelines_order() -> None:
    assert Topology(SPEC).stages_of("speak") == ("talker", "code2wav")


def test_sources_are_split_into_payloads_and_streams() -> None:
    topology = Topology(SPEC)
    assert topology.sources("encoder", "speech") == Sources(payload=(), stream=("client",))
    assert topology.sources("thinker", "speech") == Sources(payload=("encoder",), stream=())
    assert topology.sources("talker", "speech") == Sources(payload=(), stream=("thinker",))


def test_only_edges_inside_the_route_count() -> None:
    topology = Topology(SPEC)
    assert topology.sources("talker", "speak") == Sources(payload=(), stream=())
    assert topology.targets("thinker", "text_text") == Targets(payload=("client",), stream=("client",))
    assert topology.targets("thinker", "speech") == Targets(payload=("client",), stream=("talker", "client"))


def test_the_coordinator_opens_the_stages_that_no_other_feeds() -> None:
    topology = Topology(SPEC)
    assert topology.entries("speech") == ("encoder",)
    assert topology.entries("speak") == ("talker",)


def test_the_coordinator_also_opens_the_stages_that_the_client_streams_into() -> None:
    """The client's first chunk may come before the stage that feeds it has anything to say."""
    topology = Topology(with_stage(replace(TALKER, input_stream=True)))
    assert topology.entries("speech") == ("encoder", "talker")


def test_feeders_send_by_either_kind_of_edge() -> None:
    topology = Topology(SPEC)
    assert topology.feeders("thinker", "speech") == ("encoder",)
    assert topology.feeders("talker", "speech") == ("thinker",)
    assert topology.feeders("encoder", "speech") == ()


def test_inputs_and_terminals_face_the_client() -> None:
    topology = Topology(SPEC)
    assert topology.inputs("speech") == ("encoder",)
    assert topology.inputs("speak") == ()
    assert topology.terminals("speech") == ("encoder", "thinker", "code2wav")


def test_an_unknown_route_names_the_ones_there_are() -> None:
    with pytest.raises(OmniError, match="no route 'dance', only: speak, speech, text_text") as caught:
        Topology(SPEC).stages_of("dance")
    assert caught.value.code == "unsupported_route"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (replace(SPEC, stages=()), "it has no stages"),
        (replace(SPEC, stages=(*SPEC.stages, TALKER)), "the stage 'talker' is declared 2 times"),
        (replace(SPEC, stages=(*SPEC.stages, replace(TALKER, name="client"))), "not 'client'"),
        (with_stage(replace(TALKER, stream_to=("vocoder",))), "stream_to names 'vocoder', which is no stage"),
        (with_stage(replace(TALKER, stream_to=("code2wav", "code2wav"))), "stream_to names 'code2wav' twice"),
        (with_stage(replace(TALKER, runner="m.talker")), "it must be 'package.module:function'"),
        (with_stage(replace(TALKER, options=Needy)), "options Needy has fields without a default: size"),
        (
            with_stage(replace(TALKER, options=Unreadable)),
            "options Unreadable cannot be read from settings: Can only set",
        ),
        (with_stage(replace(TALKER, options=dict)), "it must be a msgspec Struct class"),
        (with_stage(replace(CODE2WAV, payload_to=("encoder",))), "encoder -> thinker -> talker -> code2wav -> encoder"),
        (replace(SPEC, routes={}), "it has no routes"),
        (replace(SPEC, routes={"speak": ()}), "route 'speak': it has no stages"),
        (replace(SPEC, routes={"speak": ("talkr",)}), "route 'speak': it names 'talkr', which is no stage"),
        (replace(SPEC, routes={"speak": ("code2wav", "code2wav")}), "it names 'code2wav' twice"),
        (replace(SPEC, routes={"speak": ("talker",)}), "it has no terminal stage"),
        (replace(SPEC, routes={"speak": ("encoder", "talker")}), "the output of 'talker' goes nowhere"),
        (replace(SPEC, routes={"speak": ("encoder", "code2wav")}), "no edge connects 'code2wav' with 'encoder'"),
        (replace(SPEC, output_sample_rate=0), "output_sample_rate is 0; it must be positive"),
        (replace(SPEC, voices=()), "it declares no voices"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_fault(spec: PipelineSpec, fault: str) -> None:
    with pytest.raises(OmniError) as caught:
        Topology(spec)
    assert caught.value.code == "invalid_pipeline"
    assert fault in str(caught.value)


def test_every_fault_is_listed() -> None:
    assert len(find_faults(replace(SPEC, input_sample_rate=0, output_sample_rate=-1, voices=()))) == 3
