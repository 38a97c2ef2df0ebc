from __future__ import annotations

import importlib
import itertools
import subprocess
import sys

import msgspec
import pytest

from voice_omni.models.starter.pipeline import PIPELINE

HEAVY = ("ctranslate2", "onnxruntime", "onnx", "torch", "transformers", "tokenizers", "gguf", "gruut")


def test_declaring_the_pipeline_loads_no_library_that_runs_models() -> None:
    code = f"import sys, voice_omni.models.starter.pipeline; print([m for m in {HEAVY} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@pytest.mark.parametrize("stage", PIPELINE.stages, ids=lambda stage: stage.name)
def test_each_stage_can_be_built_from_its_defaults(stage: object) -> None:
    module, _, function = stage.runner.partition(":")  # type: ignore[attr-defined]
    assert callable(getattr(importlib.import_module(module), function))
    assert msgspec.to_builtins(stage.options()).keys()  # type: ignore[attr-defined]


def test_every_route_leads_to_the_client() -> None:
    for stages in PIPELINE.routes.values():
        assert PIPELINE.stage(stages[-1]).terminal
        for before, after in itertools.pairwise(stages):
            stage = PIPELINE.stage(before)
            assert after in (*stage.payload_to, *stage.stream_to)


def test_it_answers_all_kinds_of_requests() -> None:
    assert PIPELINE.routes.keys() == {"speech", "text", "speech_text", "text_text", "speak", "transcribe"}
