"""The weights that a step reads at most are those that the checkpoint has."""

from __future__ import annotations

from math import prod

import pytest

from benchmarks.full_size import roofline
from tests.support.released_qwen3_omni import CONFIG
from voice_omni.models.qwen3_omni.config import parse_config
from voice_omni.models.qwen3_omni.layout import Part, layout

RELEASED = parse_config(CONFIG)
MANY = 10_000


def stored(part: Part, *without: str) -> int:
    names = layout(RELEASED, part).items()
    return 2 * sum(prod(shape) for name, shape in names if not any(each in name for each in without))


def test_a_large_batch_reads_every_expert() -> None:
    assert RELEASED.talker is not None
    thinker = stored(Part.THINKER, "embed_tokens", "norm")
    talker = stored(Part.TALKER, "codec_embedding", "norm", "projection")
    assert roofline.moe_step(RELEASED.thinker.text, MANY) == pytest.approx(thinker)
    assert roofline.moe_step(RELEASED.talker.text, MANY) == pytest.approx(talker)


def test_one_row_reads_the_experts_that_it_is_sent_to() -> None:
    text = RELEASED.thinker.text
    expert = 2 * 3 * text.hidden_size * text.moe_intermediate_size * text.num_hidden_layers
    idle = text.num_experts - text.num_experts_per_tok
    assert roofline.moe_step(text, MANY) - roofline.moe_step(text, 1) == pytest.approx(idle * expert)


def test_the_code_predictor_reads_its_layers_for_every_residual_code() -> None:
    assert RELEASED.talker is not None
    layers = stored(Part.CODE_PREDICTOR, "norm", "codec_embedding", "lm_head")
    heads = stored(Part.CODE_PREDICTOR, "norm", "codec_embedding", "layers")
    assert roofline.predictor_frame(RELEASED.talker.code_predictor) == pytest.approx(15 * layers + heads)


def test_a_frame_of_more_answers_reads_more_and_less_for_each() -> None:
    one, many = (roofline.frame_bytes(RELEASED, rows, 100 / 375) for rows in (1, 64))
    assert one < many < 64 * one
