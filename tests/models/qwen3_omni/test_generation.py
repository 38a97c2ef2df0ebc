"""The thinker and the talker against the published implementation, in float32 on the tiny checkpoint."""

from __future__ import annotations

import pytest
import torch

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.generating import CASES, LIMITS, Stages, World, answer, ending, recorded


@pytest.mark.parametrize("name", CASES)
def test_text_and_speech_are_those_of_the_oracle_and_so_is_all_that_leads_to_them(world: World, name: str) -> None:
    theirs, piece = world.theirs(name), world.piece(name)
    heads = world.talker.predictor_heads
    with (
        recorded(world.thinker.head) as thought,
        recorded(world.talker.head) as first,
        recorded(*heads) as residual,
        Stages(world) as stages,
    ):
        stages.ask("r", piece)
        ours = stages.finish()["r"]
    assert ours.tokens == theirs.tokens
    assert ours.frames == theirs.frames
    assert distance(torch.stack(thought), theirs.thinker_logits) <= TOLERANCE
    if piece.at is not None:
        assert distance(ours.hidden, theirs.hidden[piece.at]) <= TOLERANCE
    assert distance(torch.cat(stages.talker_model.read)[: len(theirs.rows)], theirs.rows) <= TOLERANCE
    assert distance(torch.stack(first), theirs.code_logits) <= TOLERANCE
    assert distance(torch.stack(residual), torch.cat(theirs.residual_logits)) <= TOLERANCE


def test_an_answer_ends_where_the_oracles_ends(world: World) -> None:
    case, free = world.case("text"), world.theirs("text")
    heads = (world.oracle.model.thinker.lm_head.weight, world.thinker.head.weight)
    with ending(free.thinker_last[:7], *heads, token=world.config.im_end_token_id):
        theirs = world.oracle.answer(case, **LIMITS)
        ours = answer(world, world.oracle.piece(case))
    assert ours.tokens == theirs.tokens == free.tokens[:6]
    assert ours.thought is not None
    assert ours.thought["finish_reason"] == "stop"
    assert ours.frames == theirs.frames


def test_an_answer_of_one_token_is_spoken(world: World) -> None:
    case, free = world.case("2.37 s of sound"), world.theirs("2.37 s of sound")
    heads = (world.oracle.model.thinker.lm_head.weight, world.thinker.head.weight)
    with ending(free.thinker_last[:2], *heads, token=world.config.im_end_token_id):
        theirs = world.oracle.answer(case, **LIMITS)
        ours = answer(world, world.oracle.piece(case))
    assert ours.tokens == theirs.tokens == free.tokens[:1]
    assert ours.frames == theirs.frames
    assert len(ours.frames) > 4


def test_an_answer_of_no_token_is_silent(world: World) -> None:
    """The oracle fails here; there is nothing to say."""
    case, free = world.case("text"), world.theirs("text")
    with ending(free.thinker_last[:1], world.thinker.head.weight, token=world.config.im_end_token_id):
        ours = answer(world, world.oracle.piece(case))
    assert ours.tokens == ours.frames == ours.failed == []
    assert ours.spoken == {"frames": 0, "finish_reason": "stop"}


@pytest.mark.parametrize("frames", [0, 1, 9])
def test_speech_ends_before_the_frame_whose_first_code_ends_it(world: World, frames: int) -> None:
    case, free = world.case("text"), world.theirs("text")
    heads = (world.oracle.model.talker.codec_head.weight, world.talker.head.weight)
    with ending(free.talker_last[: frames + 1], *heads, token=world.speech.codec_eos_token_id):
        theirs = world.oracle.answer(case, **LIMITS)
        ours = answer(world, world.oracle.piece(case))
    assert theirs.first_codes == [*free.first_codes[:frames], world.speech.codec_eos_token_id]
    assert ours.frames == theirs.frames == free.frames[:frames]
    assert ours.spoken == {"frames": frames, "finish_reason": "stop"}


def test_the_last_of_as_many_codes_as_are_allowed_gets_no_frame(world: World) -> None:
    case = world.case("text")
    theirs = world.oracle.answer(case, thinker_max_new_tokens=5, talker_max_new_tokens=8)
    ours = answer(
        world, world.oracle.piece(case), stages={"thinking": {"max_new_tokens": 5}, "talking": {"max_new_tokens": 8}}
    )
    assert ours.tokens == theirs.tokens
    assert ours.frames == theirs.frames
    assert len(ours.frames) == 7
    assert ours.spoken == {"frames": 7, "finish_reason": "length"}


def test_where_the_end_is_ignored_an_answer_has_the_length_that_is_allowed(world: World) -> None:
    case, free = world.case("text"), world.theirs("text")
    piece, ignoring = world.oracle.piece(case), {"ignore_eos": True}
    with ending(free.thinker_last[:7], world.thinker.head.weight, token=world.config.im_end_token_id):
        ours = answer(world, piece, stages={"thinking": ignoring})
    assert ours.tokens[:7] == [*free.tokens[:6], world.config.im_end_token_id]
    assert len(ours.tokens) == LIMITS["thinker_max_new_tokens"]
    with ending(free.talker_last[:4], world.talker.head.weight, token=world.speech.codec_eos_token_id):
        ours = answer(world, piece, stages={"talking": ignoring})
    assert ours.frames[:3] == free.frames[:3]
    assert ours.spoken == {"frames": LIMITS["talker_max_new_tokens"] - 1, "finish_reason": "length"}


def test_answers_of_a_batch_are_those_of_the_oracle_for_each_alone(world: World) -> None:
    """Whatever their lengths. (A batch of the oracle gives the talker one row more of a shorter answer.)"""
    with Stages(world, max_rows=4) as stages:
        for name in CASES:
            stages.ask(name, world.piece(name))
        replies = stages.finish()
    for name in CASES:
        assert replies[name].tokens == world.theirs(name).tokens
        assert replies[name].frames == world.theirs(name).frames


def test_every_voice_is_the_oracles(world: World) -> None:
    case = world.case("text")
    # One of the seventeenth frame's codes is a draw between two, but for the last bits of float32.
    limits = {**LIMITS, "talker_max_new_tokens": 16}
    spoken = {}
    for voice in world.speech.speaker_id:
        theirs = world.oracle.answer(case, speaker=voice.title(), **limits)
        ours = answer(world, world.oracle.piece(case), stages={"talking": {"max_new_tokens": 16}}, voice=voice)
        spoken[voice] = ours.frames
        assert spoken[voice] == theirs.frames
    assert len({str(frames) for frames in spoken.values()}) == len(spoken)
