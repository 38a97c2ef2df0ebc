"""A checkpoint that nobody has trained is one like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.full_size.weights import BACKBONES, RandomCheckpoint, write_checkpoint
from tests.support.byte_level_bpe import write_tokenizer
from tests.support.released_qwen3_omni import CONFIG, ROLES, SPECIALS, TOOL_MARKS, WORDS
from tests.support.tiny_qwen3_omni import build
from voice_omni.models.qwen3_omni.audio_tower import AudioTower
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import parse_config
from voice_omni.models.qwen3_omni.layout import THINKER_EMBEDDING, Part
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.proto.errors import OmniError

PREFIXES = [prefix for prefixes in BACKBONES.values() for prefix in prefixes]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Of tiny shapes, without the backbones."""
    folder = tmp_path_factory.mktemp("random")
    raw = json.loads((build(folder / "tiny") / "config.json").read_text())
    return Checkpoint(write_checkpoint(folder / "drawn", raw, lambda there: None, "cpu", PREFIXES))


def test_it_is_read_as_it_was_drawn(written: Checkpoint) -> None:
    drawn = RandomCheckpoint(written.config)
    assert written.dtype == drawn.dtype == torch.bfloat16
    for part in (Part.AUDIO_ENCODER, Part.IMAGE_ENCODER, Part.CODE_PREDICTOR, Part.CODE2WAV):
        there = dict(written.tensors(part))
        assert there
        for name, tensor in drawn.tensors(part):
            assert torch.equal(there[name], tensor), name


def test_a_module_takes_it(written: Checkpoint) -> None:
    with torch.device("meta"):
        tower = AudioTower(written.config.thinker.audio)
    RandomCheckpoint(written.config).load(tower, Part.AUDIO_ENCODER, dtype=torch.float32)
    assert {parameter.dtype for parameter in tower.parameters()} == {torch.float32}


def test_float32_holds_the_weights_of_bfloat16(written: Checkpoint) -> None:
    drawn = RandomCheckpoint(written.config)
    exact = drawn.tensor(THINKER_EMBEDDING, dtype=torch.float32)
    assert exact.dtype == torch.float32
    assert torch.equal(exact.bfloat16(), drawn.tensor(THINKER_EMBEDDING))


def test_what_is_left_out_is_declared_and_not_there(written: Checkpoint) -> None:
    with pytest.raises(OmniError) as caught:
        written.tensor("thinker.model.layers.0.self_attn.q_proj.weight")
    assert caught.value.code == "weights_corrupt"
    assert written.tensor("talker.text_projection.linear_fc1.weight").isfinite().all()


def test_the_released_tokens_have_their_ids(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, ROLES, SPECIALS, TOOL_MARKS, range(WORDS))
    tokenizer = Tokenizer.load(tmp_path)
    config = parse_config(CONFIG)
    ids = tokenizer.encode(
        "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_end|><|im_end|>\n<|im_start|>assistant"
    )
    thinker = config.thinker
    sound = [thinker.audio_start_token_id, thinker.audio_token_id, thinker.audio_end_token_id]
    start, line = config.im_start_token_id, ord("\n")
    turn = [start, config.user_token_id, line, *sound, config.im_end_token_id, line]
    assert ids == [*turn, start, config.assistant_token_id]
    assert all(tokenizer.bytes[id] for id in range(WORDS)), "each id of a text is shown as something"
