"""What the schema knows about every value."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from voice_omni.config import load
from voice_omni.config.schema import Leaf, leaves, schema_of
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError
from voice_omni.scheduling.options import OmniOptions


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (bool, "true or false"),
        (int, "a whole number"),
        (Annotated[int, Meta(ge=1)], "a whole number, at least 1"),
        (Annotated[int, Meta(ge=1, le=1048576)], "a whole number from 1 to 1048576"),
        (Annotated[float, Meta(gt=0, lt=0.5)], "a number, above 0 and below 0.5"),
        (Annotated[float, Meta(ge=0, le=2)] | None, "a number from 0 to 2 or null"),
        (str, "text"),
        (Annotated[str, Meta(min_length=1)], "text that is not empty"),
        (Annotated[str, Meta(pattern="^a+$")], "text like ^a+$"),
        (Literal["fast", "exact"], "one of exact, fast"),
        (tuple[str, ...], "a list, each text"),
        (Annotated[list[int], Meta(min_length=1)], "a list that is not empty, each a whole number"),
        (tuple[int, str], "a list of a whole number and text"),
        (dict[str, float], "keys with values, each a number"),
    ],
)
def test_a_type_is_put_into_words(hint: Any, words: str) -> None:
    assert Leaf(hint, None, "").expects == words


def test_every_value_has_a_path_and_a_meaning(spec: PipelineSpec) -> None:
    found = {".".join(path): leaf for path, leaf in leaves(schema_of(spec))}
    assert found["processes.NAME.replicas"].default == 1
    assert found["stages.thinker.options.temperature"].meaning == "randomness of the answer"
    assert found["stages.thinker.options.voice"].meaning == "who speaks; null is the model's own voice"
    assert found["stages.talker.scheduler.first_frames"].default == 20
    assert found["stages.thinker.credits"].default == 16


def test_the_projects_own_settings_all_have_a_meaning(spec: PipelineSpec) -> None:
    mute = [".".join(path) for path, leaf in leaves(schema_of(spec)) if not leaf.meaning and "options" not in path]
    assert mute == []


class Inner(msgspec.Struct):
    depth: int = 1


class Outer(msgspec.Struct):
    inner: Inner = msgspec.field(default_factory=lambda: Inner(depth=5))
    others: dict[str, Inner] = msgspec.field(default_factory=lambda: {"one": Inner()})


def test_options_may_be_nested_and_keep_the_defaults_of_the_outer_ones(spec: PipelineSpec) -> None:
    talker = replace(spec.stages[1], options=Outer)
    settings = load(replace(spec, stages=(spec.stages[0], talker)), None, ["stages.talker.options.inner.depth=7"], {})
    assert settings.settings.stages["talker"].options == Outer(inner=Inner(depth=7))
    untouched = load(replace(spec, stages=(spec.stages[0], talker)), None, (), {})
    assert untouched.settings.stages["talker"].options == Outer()


class Unreadable(msgspec.Struct):
    size: Annotated[int | None, Meta(ge=0)] = None


def test_a_type_that_cannot_be_read_is_named(spec: PipelineSpec) -> None:
    talker = replace(spec.stages[1], options=Unreadable)
    with pytest.raises(TypeError, match=r"^Unreadable\.size is no type that settings can be read into"):
        schema_of(replace(spec, stages=(spec.stages[0], talker)))


def test_a_stage_may_have_other_defaults_for_its_scheduler(spec: PipelineSpec) -> None:
    first = replace(spec.stages[0], scheduler_defaults={"max_rows": 3})
    resolved = load(replace(spec, stages=(first, *spec.stages[1:])), None, [], {})
    assert resolved.settings.stages[first.name].scheduler == OmniOptions(max_rows=3)
    changed = load(replace(spec, stages=(first, *spec.stages[1:])), None, ["stages.thinker.scheduler.max_rows=5"], {})
    assert changed.settings.stages[first.name].scheduler == OmniOptions(max_rows=5)


def test_a_model_can_be_set_where_the_pipeline_has_a_checkpoint(spec: PipelineSpec) -> None:
    open_to_others = replace(spec, checkpoint="weights")
    assert load(open_to_others, None, [], {}).settings.model is None
    assert load(open_to_others, None, ["model=hf:some/where"], {}).settings.model == "hf:some/where"
    with pytest.raises(OmniError, match="model does not exist"):
        load(spec, None, ["model=hf:some/where"], {})
