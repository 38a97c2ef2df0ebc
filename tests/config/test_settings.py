"""What settings say about a layout, and their way to another process."""

from __future__ import annotations

import msgspec

from voice_omni.config import default_settings, load
from voice_omni.config.wire import from_wire, to_wire
from voice_omni.pipeline.spec import PipelineSpec


def test_every_stage_has_its_process(spec: PipelineSpec) -> None:
    assert default_settings(spec).process_of("talker") == "talker"


def test_a_stage_process_gets_the_settings_that_concern_it(spec: PipelineSpec) -> None:
    settings = load(spec, None, ["stages.thinker.options.sizes=[7]", "limits.max_requests=3"], {}).settings
    received = from_wire(spec, msgspec.json.decode(msgspec.json.encode(to_wire(settings))))
    assert received.stages == settings.stages
    assert received.processes == settings.processes
    assert received.limits == settings.limits
