"""A stage reads its own tensors and no others; what does not fit is an error that names the tensor."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.support.tiny_qwen3_omni import build
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.layout import THINKER_EMBEDDING, Part
from voice_omni.proto.errors import OmniError

NORM = "code2wav.pre_transformer.norm.weight"


@pytest.fixture
def edited(tiny: Path, tmp_path: Path) -> Callable[[Callable[[dict[str, torch.Tensor]], None]], Path]:
    """The checkpoint's folder with its tensors changed."""

    def edit(change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
        tensors = load_file(tiny / "model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / "model.safetensors")
        copyfile(tiny / "config.json", tmp_path / "config.json")
        return tmp_path

    return edit


def test_all_stages_together_read_every_tensor_once(checkpoint: Checkpoint) -> None:
    read = Counter(part.value + name for part in Part for name, _ in checkpoint.tensors(part))
    assert set(read.values()) == {1}
    assert read.keys() == load_file(checkpoint.folder / "model.safetensors").keys()


def test_shards_hold_the_same(checkpoint: Checkpoint, tmp_path: Path) -> None:
    build(tmp_path, max_shard_size="600KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    sharded = Checkpoint(tmp_path)
    for part in Part:
        whole = dict(checkpoint.tensors(part))
        for name, tensor in sharded.tensors(part):
            assert torch.equal(tensor, whole.pop(name))
        assert not whole


def test_a_stage_opens_no_other_stage_s_shards(tmp_path: Path) -> None:
    build(tmp_path, max_shard_size="600KB")
    weight_map: dict[str, str] = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    needed = {file for name, file in weight_map.items() if name.startswith(Part.CODE2WAV.value)}
    checkpoint = Checkpoint(tmp_path)
    for file in set(weight_map.values()) - needed:
        (tmp_path / file).write_bytes(b"not read")
    assert len(dict(checkpoint.tensors(Part.CODE2WAV))) > 100


def test_one_tensor_by_its_name_in_another_type(checkpoint: Checkpoint) -> None:
    tensor = checkpoint.tensor(THINKER_EMBEDDING, dtype=torch.bfloat16)
    assert tensor.shape == (512, 64)
    assert tensor.dtype is torch.bfloat16
    with pytest.raises(OmniError, match=r"no tensor 'thinker\.model\.unknown'"):
        checkpoint.tensor("thinker.model.unknown")


def test_a_missing_tensor_is_named(edited: Callable[..., Path]) -> None:
    with pytest.raises(OmniError, match=NORM) as caught:
        Checkpoint(edited(lambda tensors: tensors.pop(NORM)))
    assert caught.value.code == "weights_corrupt"
    assert caught.value.info.param == NORM


@pytest.mark.parametrize("name", ["code2wav.pre_transformer.q_norm.weight", "other.weight"])
def test_a_tensor_that_nobody_reads_is_named(edited: Callable[..., Path], name: str) -> None:
    with pytest.raises(OmniError, match=f"unknown tensors: not expected {name}") as caught:
        Checkpoint(edited(lambda tensors: tensors.update({name: torch.zeros(1)})))
    assert caught.value.info.param == name


def test_a_tensor_of_another_shape_is_named(edited: Callable[..., Path]) -> None:
    folder = edited(lambda tensors: tensors.update({NORM: torch.zeros(33)}))
    with pytest.raises(OmniError, match=rf"{NORM} has shape \[33\], expected \[32\]") as caught:
        list(Checkpoint(folder).tensors(Part.CODE2WAV))
    assert caught.value.info.param == NORM


def test_a_module_must_have_its_part_s_parameters(checkpoint: Checkpoint) -> None:
    with torch.device("meta"):
        module = nn.Linear(2, 2)
    with pytest.raises(OmniError, match="missing bias, weight"):
        checkpoint.load(module, Part.CODE2WAV)


def test_what_is_not_safetensors_is_refused(tiny: Path, tmp_path: Path) -> None:
    copyfile(tiny / "config.json", tmp_path / "config.json")
    with pytest.raises(OmniError, match="no readable weights"):
        Checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(OmniError, match="no readable weights"):
        Checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "gone.safetensors"}}')
    with pytest.raises(OmniError, match=r"lacks gone\.safetensors"):
        Checkpoint(tmp_path)


def test_a_checkpoint_that_only_writes_may_hold_more(tiny: Path, tmp_path: Path) -> None:
    raw = json.loads((tiny / "config.json").read_text()) | {"enable_audio_output": False}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    copyfile(tiny / "model.safetensors", tmp_path / "model.safetensors")
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.parts() == {Part.AUDIO_ENCODER, Part.IMAGE_ENCODER, Part.THINKER}
    assert list(checkpoint.tensors(Part.CODE2WAV)) == []
