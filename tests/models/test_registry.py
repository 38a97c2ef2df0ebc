"""Model packages are found without being named anywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from voice_omni import models
from voice_omni.models import registry
from voice_omni.proto.errors import OmniError

PIPELINE = """
from voice_omni.pipeline.spec import PipelineSpec
PIPELINE = PipelineSpec("fresh", "a new model", (), {}, 16000, 24000, weights=("fresh-weights",))
"""
WEIGHTS = """
from voice_omni.weights.declaration import Weights
WEIGHTS = (Weights("fresh-weights", "/models/fresh", ("*",), 1, "MIT", "nothing"),)
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A model package that was just added, and one beside it that is only a helper."""
    for name, modules in {"fresh": {"pipeline": PIPELINE, "weights": WEIGHTS}, "helper": {}}.items():
        (tmp_path / name).mkdir()
        for module, source in {"__init__": "", **modules}.items():
            (tmp_path / name / f"{module}.py").write_text(source)
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    yield
    for module in [
        name for name in sys.modules if name.startswith(("voice_omni.models.fresh", "voice_omni.models.helper"))
    ]:
        del sys.modules[module]


@pytest.mark.usefixtures("fresh")
def test_a_new_package_is_found_by_itself() -> None:
    assert registry.get("fresh").description == "a new model"
    assert "fresh" in registry.pipelines()
    assert [each.source for each in registry.weights_of(registry.get("fresh"))] == ["/models/fresh"]


@pytest.mark.usefixtures("fresh")
def test_an_unknown_pipeline_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(OmniError, match=r"there are: .*fresh") as caught:
        registry.get("frsh")
    assert (caught.value.code, caught.value.info.param) == ("unknown_pipeline", "pipeline")


def test_every_pipeline_names_weights_that_are_declared() -> None:
    for spec in registry.pipelines().values():
        assert [each.name for each in registry.weights_of(spec)] == list(spec.weights)


def test_looking_loads_no_numerical_library() -> None:
    script = """
import sys
from voice_omni.models import registry
registry.pipelines(), registry.weights()
heavy = {"torch", "transformers", "ctranslate2", "onnxruntime", "onnx", "gruut", "huggingface_hub"} & sys.modules.keys()
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
