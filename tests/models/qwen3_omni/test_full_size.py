"""The full-size modules run in the weights' own type and on another device than the CPU; nothing is computed here."""

from __future__ import annotations

import pytest
import torch

from tests.support.released_qwen3_omni import CONFIG
from voice_omni.models.qwen3_omni.audio_tower import AudioTower
from voice_omni.models.qwen3_omni.code2wav_layers import Rows, Tables
from voice_omni.models.qwen3_omni.code2wav_network import Code2Wav
from voice_omni.models.qwen3_omni.config import parse_config
from voice_omni.models.qwen3_omni.vision_tower import VisionTower

RELEASED = parse_config(CONFIG)
OTHER = {"device": "meta", "dtype": torch.bfloat16}
"""An operation that mixes devices fails."""


@pytest.mark.parametrize(("first", "samples"), [(True, 5 * 1920 - 555), (False, 5 * 1920)])
def test_code2wav(first: bool, samples: int) -> None:
    assert RELEASED.code2wav is not None
    with torch.device("meta"):
        model = Code2Wav(RELEASED.code2wav).to(torch.bfloat16)
        model.prepare()
        slots, before, lengths = (torch.zeros(2, dtype=torch.long) for _ in range(3))
        codes = torch.zeros(2, 16, 5, dtype=torch.long)
    tables = Tables(model, 4, "meta", torch.bfloat16)
    assert sum(table[0].nbytes for table in tables.histories) < 2.7e6, "a stream's memory"
    sound = model(codes, Rows(tables, slots, before, first, lengths))
    assert (sound.shape, sound.dtype) == ((2, samples), torch.bfloat16)


def test_audio_tower() -> None:
    with torch.device("meta"):
        tower = AudioTower(RELEASED.thinker.audio).to(torch.bfloat16)
    chunks = tower.convolve(torch.zeros(4, 128, 100, **OTHER), torch.zeros(4, dtype=torch.long, device="meta"))
    assert chunks.shape == (4, 13, 1280)
    rows = tower.attend(chunks, torch.ones(4, 1, 1, 13, dtype=torch.bool, device="meta"))
    assert (rows.shape, rows.dtype) == ((4, 13, 2048), torch.bfloat16)


def test_vision_tower() -> None:
    with torch.device("meta"):
        tower = VisionTower(RELEASED.thinker.vision).to(torch.bfloat16)
    seen = tower(torch.zeros(2, 24, 3 * 2 * 16 * 16, **OTHER), 4, 6)
    assert (seen.rows.shape, seen.rows.dtype) == ((12, 2048), torch.bfloat16)
    assert [layer.shape for layer in seen.deepstack] == [(12, 2048)] * 3
