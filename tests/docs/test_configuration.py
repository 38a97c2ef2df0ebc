"""``docs/configuration.md`` and the files in ``configs/`` are true."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_omni.config import load, pipeline_name
from voice_omni.config.reference import reference
from voice_omni.models import registry
from voice_omni.proto.errors import OmniError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"


def test_the_reference_is_the_one_that_the_settings_give() -> None:
    _, marker, printed = PAGE.read_text().partition("<!-- made by: voice-omni config reference -->\n")
    assert marker
    assert printed == reference(registry.get("starter")), "run 'voice-omni config reference' and paste what it prints"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_every_layout_that_comes_along_is_valid(path: Path) -> None:
    spec = registry.get(pipeline_name(path, (), {}))
    assert load(spec, path, (), {}).settings.pipeline == spec.name


def test_the_default_layout_is_the_one_that_starter_yaml_spells_out() -> None:
    spec = registry.get("starter")
    assert load(spec, ROOT / "configs" / "starter.yaml", (), {}).settings == load(spec, None, (), {}).settings


def test_the_layout_on_the_page_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "page.yaml"
    path.write_text(PAGE.read_text().partition("```yaml\n")[2].partition("```")[0])
    assert load(registry.get("starter"), path, (), {}).settings.processes["voice"].replicas == 2


def test_the_errors_on_the_page_read_like_that(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("pipeline: starter\n\n\nstages:\n  thinker:\n    options:\n      temperature: warm\n")
    with pytest.raises(OmniError) as caught:
        load(registry.get("starter"), path, ["server.prot=1"], {})
    for line in str(caught.value).replace(str(path), "configs/mine.yaml").splitlines()[1:]:
        assert line.strip() in PAGE.read_text()


def test_the_memory_of_one_gpu_holds_the_layout_for_one() -> None:
    settings = load(registry.get("qwen3_omni"), ROOT / "configs" / "qwen3-omni-gpu.yaml", (), {}).settings
    thinker, talker = (settings.stages[name].options for name in ("thinker", "talker"))
    assert {process.device for process in settings.processes.values()} == {"cpu", "cuda"}
    weights = 61 + 7.3 + 2.4 + 0.4
    pools = 0.102e-3 * thinker.sglang.kv_tokens + 0.020e-3 * talker.sglang.kv_tokens
    streams = 0.0025 * settings.stages["code2wav"].options.max_streams
    assert weights + pools + streams < 0.9 * 141


def test_with_two_gpus_nothing_shares_the_thinkers() -> None:
    settings = load(registry.get("qwen3_omni"), ROOT / "configs" / "qwen3-omni-2gpu.yaml", (), {}).settings
    on = {name: settings.processes[settings.process_of(name)].device for name in settings.stages}
    assert [name for name, device in on.items() if device == "cuda:0"] == ["thinker"]
    assert {on[name] for name in ("image_encoder", "audio_encoder", "talker", "code2wav")} == {"cuda:1"}
