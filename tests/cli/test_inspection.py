"""What ``check`` finds."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.pipelines import toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli.inspection import Finding, inspect
from voice_omni.cli.listener import bind
from voice_omni.config import ServerSettings, Settings
from voice_omni.pipeline.spec import PipelineSpec


@pytest.fixture
def settings() -> Settings:
    return msgspec.structs.replace(toy_settings(), server=ServerSettings(port=0))


def look(spec: PipelineSpec, settings: Settings) -> dict[str, Finding]:
    return {finding.subject: finding for finding in inspect(spec, settings)}


def test_every_stage_whose_libraries_load_is_good(settings: Settings) -> None:
    found = look(PIPELINE, settings)
    assert {found[f"stage {stage.name}"].state for stage in PIPELINE.stages} == {"ok"}
    assert found["configuration"].state == "ok"
    assert found["port"].state == "ok"


def test_a_library_that_does_not_load_is_named_with_what_to_do(settings: Settings) -> None:
    stages = tuple(replace(stage, runner="no_such_library:build") for stage in PIPELINE.stages)
    finding = look(replace(PIPELINE, stages=stages), settings)["stage think"]
    assert finding.state == "missing"
    assert "No module named 'no_such_library'" in finding.text
    assert "pip install" in finding.text


def test_a_port_in_use_is_missing(settings: Settings) -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        found = look(PIPELINE, msgspec.structs.replace(settings, server=ServerSettings(port=port)))
    assert found["port"].state == "missing"
    assert "--port" in found["port"].text


def test_weights_that_are_not_cached_are_only_a_note(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("VOICE_OMNI_CACHE", str(tmp_path))
    finding = look(PIPELINE, settings)["weights"]
    assert finding.state == "note"
    assert "voice-omni models fetch" in finding.text


def test_a_finding_is_one_line() -> None:
    assert str(Finding("note", "memory", "1.0 GB free")) == "note    memory          1.0 GB free"
