"""Which nodes a placement makes, and which of them exchange device tensors."""

from __future__ import annotations

import msgspec
import pytest

from voice_omni.config.settings import ProcessSettings
from voice_omni.pipeline.placement import DeviceLinks, device_links, nodes_of
from voice_omni.pipeline.spec import PipelineSpec, StageSpec


class Options(msgspec.Struct):
    pass


SPEC = PipelineSpec(
    name="chain",
    description="an encoder whose rows stay on the device, and two stages behind it",
    stages=(
        StageSpec("encoder", "simple", "m:f", Options, stream_to=("thinker",), device_tensors=True),
        StageSpec("thinker", "omni", "m:f", Options, payload_to=("vocoder",)),
        StageSpec("vocoder", "code2wav", "m:f", Options, terminal=True),
    ),
    routes={"speech": ("encoder", "thinker", "vocoder")},
    input_sample_rate=16_000,
    output_sample_rate=24_000,
)
NONE = DeviceLinks((), False)


def process(*stages: str, device: str = "cuda", replicas: int = 1, inline: bool = False) -> ProcessSettings:
    return ProcessSettings(stages=stages, device=device, replicas=replicas, inline=inline)


def links(**processes: ProcessSettings) -> dict[str, DeviceLinks]:
    return {name: device_links(SPEC, processes, name) for name in processes}


def test_a_process_has_a_node_for_each_copy() -> None:
    assert nodes_of("talk", process("vocoder", replicas=3)) == ("talk.0", "talk.1", "talk.2")
    assert nodes_of("talk", process("vocoder", inline=True)) == ("main",)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
def test_tensors_stay_on_devices_from_a_stage_that_sends_them_to_one_that_it_feeds(device: str) -> None:
    found = links(e=process("encoder"), t=process("thinker", device=device), v=process("vocoder"))
    assert found == {"e": DeviceLinks((), True), "t": DeviceLinks(("e.0",), False), "v": NONE}


def test_every_copy_is_linked_with_every_copy() -> None:
    found = links(e=process("encoder", replicas=2), t=process("thinker", replicas=2), v=process("vocoder"))
    assert found["t"] == DeviceLinks(("e.0", "e.1"), False)


def test_what_shares_a_process_needs_no_link() -> None:
    assert links(both=process("encoder", "thinker"), v=process("vocoder")) == {"both": NONE, "v": NONE}


@pytest.mark.parametrize("which", ["encoder", "thinker"])
def test_a_stage_without_a_device_gets_and_sends_host_arrays(which: str) -> None:
    devices = {"encoder": "cuda", "thinker": "cuda", which: "cpu"}
    found = links(e=process("encoder", device=devices["encoder"]), t=process("thinker", device=devices["thinker"]))
    assert found == {"e": NONE, "t": NONE}


def test_the_servers_own_process_gets_and_sends_host_arrays() -> None:
    assert links(e=process("encoder", inline=True), t=process("thinker")) == {"e": NONE, "t": NONE}
    assert links(e=process("encoder"), t=process("thinker", inline=True)) == {"e": NONE, "t": NONE}


def test_only_links_that_exist_count_as_true() -> None:
    assert not NONE
    assert DeviceLinks(("a.0",), False)
    assert DeviceLinks((), True)
