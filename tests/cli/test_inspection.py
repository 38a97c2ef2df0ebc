"""What ``check`` finds."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import msgspec
import pytest
import torch

from tests.support.pipelines import toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli import inspection
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


def on_device(settings: Settings, device: str) -> Settings:
    processes = {name: msgspec.structs.replace(each, device=device) for name, each in settings.processes.items()}
    return msgspec.structs.replace(settings, processes=processes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_layout_for_gpus_is_found_out_on_a_machine_without_one(settings: Settings) -> None:
    finding = look(PIPELINE, on_device(settings, "cuda"))["device cuda"]
    assert finding.state == "missing"
    assert "CUDA driver" in finding.text
    assert not any(subject.startswith("device") for subject in look(PIPELINE, settings))


def test_a_gpu_that_is_not_there_is_missing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    class TwoDevices:
        def count(self) -> int:
            return 2

    monkeypatch.setattr(inspection, "CudaDriver", TwoDevices)
    assert look(PIPELINE, on_device(settings, "cuda"))["device cuda"].state == "ok"
    assert look(PIPELINE, on_device(settings, "cuda:1"))["device cuda:1"].state == "ok"
    assert look(PIPELINE, on_device(settings, "cuda:2"))["device cuda:2"].state == "missing"


@pytest.mark.skipif(find_spec("sglang") is not None, reason="SGLang is installed")
def test_an_engine_whose_library_is_not_installed_is_missing(settings: Settings) -> None:
    class Options(msgspec.Struct):
        engine: str

    def think(engine: str) -> Settings:
        stage = msgspec.structs.replace(settings.stages["think"], options=Options(engine))
        return msgspec.structs.replace(settings, stages={**settings.stages, "think": stage})

    finding = look(PIPELINE, think("sglang"))["engine of think"]
    assert finding.state == "missing"
    assert "pip install 'voice-omni[sglang]'" in finding.text
    assert "engine of think" not in look(PIPELINE, think("torch"))


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
    assert str(Finding("note", "memory", "1.0 GB free")) == "note    memory              1.0 GB free"
    assert str(Finding("ok", "stage audio_encoder", "good")) == "ok      stage audio_encoder good"
