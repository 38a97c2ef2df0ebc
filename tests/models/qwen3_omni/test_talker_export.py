"""The talker's folder for an engine that loads folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from tests.support import tiny_qwen3_omni
from voice_omni.models.qwen3_omni.backbones import load_talker, load_talker_tables
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.layout import Part, layout
from voice_omni.models.qwen3_omni.talker_export import export_talker
from voice_omni.models.qwen3_omni.talker_prompt import TalkerPrompt
from voice_omni.models.qwen3_omni.wire import UserPart


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return Checkpoint(tiny_qwen3_omni.build(tmp_path_factory.mktemp("sharded"), max_shard_size="200KB"))


def test_it_links_to_the_files_that_hold_the_talker_and_to_no_others(sharded: Checkpoint, tmp_path: Path) -> None:
    export_talker(sharded, tmp_path)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert 0 < len(files) < len(list(sharded.folder.glob("*.safetensors")))
    held: set[str] = set()
    for file in files:
        assert file.is_symlink()
        with safe_open(file, framework="pt") as shard:
            names = set(shard.keys())
        assert any(name.startswith(Part.TALKER.value) for name in names)
        held |= names
    assert held >= {name for part in (Part.TALKER, Part.CODE_PREDICTOR) for name in layout(sharded.config, part)}


def test_its_configuration_is_the_talkers(sharded: Checkpoint, tmp_path: Path) -> None:
    talker = sharded.config.talker
    assert talker is not None
    written = json.loads((export_talker(sharded, tmp_path) / "config.json").read_text())
    assert written["num_hidden_layers"] == talker.text.num_hidden_layers
    assert written["code_predictor_config"]["num_code_groups"] == talker.num_code_groups
    assert written["rope_parameters"]["mrope_section"] == list(talker.text.rope.mrope_section or ())
    assert talker.codec_eos_token_id not in written["suppressed_codes"]


def test_the_tables_alone_make_the_prompts_of_the_whole_talker(sharded: Checkpoint) -> None:
    whole, tables = TalkerPrompt(load_talker(sharded)), TalkerPrompt(load_talker_tables(sharded))
    part = UserPart([5, 6, 7], np.zeros((3, 3), np.float32), np.array([1]), np.ones((1, 64), np.float32))
    assert np.array_equal(whole.padding, tables.padding)
    assert np.array_equal(whole.user([part]), tables.user([part]))
    assert np.array_equal(whole.answer([5, 6, 7], 8, 1080), tables.answer([5, 6, 7], 8, 1080))


def test_parts_of_several_people_are_what_each_is_alone(sharded: Checkpoint) -> None:
    prompt = TalkerPrompt(load_talker_tables(sharded))
    draw = np.random.default_rng(1)

    def part(tokens: list[int], *at: int) -> UserPart:
        hidden = draw.normal(size=(len(at), 64)).astype(np.float32)
        return UserPart(tokens, np.zeros((3, len(tokens)), np.float32), np.array(at, np.int64), hidden)

    parts = [part([5, 6, 7], 1), part([8]), part([5, 9, 9, 7], 1, 2)]
    together = prompt.user(parts)
    for each, rows in zip(parts, together, strict=True):
        assert np.allclose(rows, prompt.user([each])[0], atol=1e-5)
    assert np.array_equal(together[1], prompt.text([8]))
    assert prompt.user([]) == []
