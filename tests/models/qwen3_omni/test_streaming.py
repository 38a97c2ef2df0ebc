"""Nothing about when things come changes what is said: cuts, late text, slow listeners, neighbours, earlier turns."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.generating import Reply, Stages, World, answer
from tests.models.qwen3_omni.segments import cut
from voice_omni.engines.interface import Piece
from voice_omni.scheduling.interface import FailedOut

SHORT: dict[str, Any] = {"thinking": {"max_new_tokens": 6}, "talking": {"max_new_tokens": 12}}
SAMPLED: dict[str, Any] = {
    "thinking": {"max_new_tokens": 6, "temperature": 1.0, "top_k": 40},
    "talking": {"max_new_tokens": 12, "temperature": 0.9},
}
SOUND, FILM = "two turns of sound around an answer", "a picture, and a film with its sound"

few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@cache
def alone(world: World, name: str, seed: int | None = None) -> Reply:
    """What is said to a prompt that comes whole, with nothing beside it; with a seed: by chance."""
    if seed is None:
        return answer(world, world.piece(name), stages=SHORT)
    return answer(world, world.piece(name), stages=SAMPLED, seed=seed)


def same(one: Reply, other: Reply) -> bool:
    return (one.tokens, one.frames, one.spoken) == (other.tokens, other.frames, other.spoken)


# -- the prompt --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["text", SOUND, FILM])
@few
@given(data=st.data())
def test_a_prompt_in_pieces_is_the_prompt(world: World, name: str, data: st.DataObject) -> None:
    piece, whole = world.piece(name), alone(world, name)
    places = data.draw(st.sets(st.integers(1, len(piece) - 1), max_size=8))
    with Stages(world, **SHORT) as stages:
        stages.open("r")
        for part in cut(piece, places):
            stages.prompt("r", part)
            if data.draw(st.booleans()):
                stages.think()
                stages.hand_over("r")
                stages.talk()
        stages.close("r")
        ours = stages.finish()["r"]
    assert same(ours, whole)
    if len(whole.hidden):
        assert distance(ours.hidden, whole.hidden) <= TOLERANCE


def test_each_piece_is_computed_when_it_comes_by_both_and_nothing_is_said_before_the_last(world: World) -> None:
    piece = world.piece(SOUND)
    with Stages(world, **SHORT) as stages:
        stages.open("r")
        come = 0
        for part in cut(piece, (10, 24, 40)):
            stages.prompt("r", part)
            stages.think()
            come += len(part)
            assert stages.thinker_model.computed == come
            assert stages.replies["r"].tokens == []
            shown = sum(len(part["tokens"]) for part in stages.replies["r"].parts)
            stages.hand_over("r")
            stages.talk()
            assert stages.talker_model.computed == shown
        stages.close("r")
        assert stages.finish()["r"].tokens


def test_of_the_prompt_the_talker_sees_the_persons_turns(world: World) -> None:
    config, case = world.config, world.case(SOUND)
    ours = answer(world, world.piece(SOUND), stages=SHORT)
    seen = [token for part in ours.parts for token in part["tokens"]]
    starts = [place for place, token in enumerate(case.tokens) if token == config.im_start_token_id]
    turns = [case.tokens[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    assert seen == [token for turn in turns if turn[1] == config.user_token_id for token in turn]


# -- the text ----------------------------------------------------------------------------------------------------------


@few
@given(plan=st.lists(st.integers(0, 3), min_size=4, max_size=12))
def test_late_text_is_waited_for(world: World, plan: list[int]) -> None:
    """Given to the talker bit by bit, each time as late as can be: the talker has stopped for the lack of it."""
    with Stages(world, **SHORT) as stages:
        stages.ask("r", world.piece("text"))
        stages.think()
        for count in plan:
            stages.hand_over("r", count)
            stages.talk()
        assert same(stages.finish()["r"], alone(world, "text"))


def test_a_row_whose_text_is_late_waits_alone(world: World) -> None:
    with Stages(world, **SHORT) as stages:
        stages.ask("late", world.piece("text"))
        stages.ask("other", world.piece(SOUND))
        stages.think()
        user, first, second = 1, 1, 1
        stages.hand_over("late", user + first + second)
        stages.hand_over("other")
        stages.talk()
        # The first frame needs the first token only, and each further one a token more.
        assert len(stages.replies["late"].frames) == 2
        assert stages.replies["late"].spoken is None
        assert stages.replies["other"].spoken is not None
        stages.finish()
    assert same(stages.replies["late"], alone(world, "text"))
    assert same(stages.replies["other"], alone(world, SOUND))


def test_speech_goes_on_when_the_text_has_ended(world: World) -> None:
    ours = answer(world, world.piece("text"), stages={"thinking": {"max_new_tokens": 3}})
    assert len(ours.frames) > 2 * len(ours.tokens)


# -- listeners and neighbours ------------------------------------------------------------------------------------------


def test_speech_far_enough_ahead_of_the_ear_waits_and_is_the_same(world: World) -> None:
    talking = {"max_new_tokens": 30}
    whole = answer(world, world.piece("text"), stages={**SHORT, "talking": talking})
    with Stages(world, **{**SHORT, "talking": talking}, lead_s=1.0) as stages:
        stages.ask("r", world.piece("text"))
        stages.think()
        stages.hand_over("r")
        stages.talk()
        assert len(stages.replies["r"].frames) == 13, "of 80 ms each"
        stages.talk(0.5)
        assert len(stages.replies["r"].frames) == 18, "0.4 seconds later"
        stages.talk(10)
        ours = stages.finish()["r"]
    assert same(ours, whole)


@few
@given(data=st.data())
def test_slow_listeners_neighbours_and_aborts_change_nothing(world: World, data: st.DataObject) -> None:
    names = ["text", SOUND, "a picture", "0.6 s of sound"]
    pieces = {name: world.piece(name) for name in names}
    lucky = random.Random(data.draw(st.integers(0, 2**32)))
    aborted = {name for name in names if lucky.random() < 0.25}
    with Stages(world, **SAMPLED, max_rows=lucky.randint(1, 4)) as stages:
        for name in lucky.sample(names, len(names)):
            stages.ask(name, *cut(pieces[name], {lucky.randrange(1, 20)}), credits=lucky.randrange(3), seed=3)
        for _ in range(lucky.randrange(20)):
            name = lucky.choice(names)
            match lucky.randrange(5):
                case 0:
                    stages.think()
                case 1:
                    stages.hand_over(name, lucky.randrange(4))
                case 2 | 3:
                    stages.credit(name, lucky.randrange(1, 4))
                    stages.talk()
                case 4 if name in aborted:
                    stages.abort(name)
        for name in names:
            stages.credit(name, 100)
        for name in aborted:
            stages.abort(name)
        replies = stages.finish()
    for name in names:
        if name in aborted:
            said = replies[name].frames
            assert said == alone(world, name, 3).frames[: len(said)]
        else:
            assert same(replies[name], alone(world, name, 3))


# -- chance ------------------------------------------------------------------------------------------------------------


def test_a_seed_says_it_again_and_each_request_has_its_own(world: World) -> None:
    piece = world.piece("text")
    with Stages(world, **SAMPLED) as stages:
        for name, seed in (("a", 1), ("b", 1), ("c", 2), ("d", None), ("e", None)):
            stages.ask(name, piece, **({} if seed is None else {"seed": seed}))
        replies = stages.finish()
    assert same(replies["a"], replies["b"])
    assert len({str((replies[name].tokens, replies[name].frames)) for name in "acde"}) == 4


def test_sampled_frames_have_no_codes_beyond_the_codebook(world: World) -> None:
    book = world.config.code2wav.codebook_size if world.config.code2wav else 0
    ours = answer(world, world.piece("text"), stages={"talking": {"temperature": 2.0, "top_k": 0}}, seed=5)
    assert ours.frames
    assert all(0 <= code < book for frame in ours.frames for code in frame)


# -- sessions ----------------------------------------------------------------------------------------------------------


def turns(world: World) -> tuple[Piece, Piece]:
    """A prompt, and the next one of its session, which begins with it."""
    whole = world.piece(SOUND)
    starts = [place for place, token in enumerate(whole.tokens) if token == world.config.im_start_token_id]
    first, _ = cut(whole, {starts[2] + 3})
    return first, whole


def test_the_next_turn_of_a_session_computes_what_is_new(world: World) -> None:
    first, second = turns(world)
    fresh = alone(world, SOUND)
    with Stages(world, **SHORT) as stages:
        stages.ask("first", first, session="s")
        stages.finish()
        before = stages.thinker_model.computed
        stages.open("second", session="s")
        for part in cut(second, {5, len(first) - 2, len(first) + 4}):
            stages.prompt("second", part)
            stages.think()
        assert stages.thinker_model.computed - before == len(second) - len(first)
        stages.close("second")
        ours = stages.finish()["second"]
    assert same(ours, fresh)
    assert distance(ours.hidden, fresh.hidden) <= TOLERANCE


def test_the_same_prompt_again_computes_its_last_position(world: World) -> None:
    piece = world.piece(SOUND)
    with Stages(world, **SHORT) as stages:
        stages.ask("first", piece, session="s")
        stages.finish()
        before = stages.thinker_model.computed
        stages.open("again", session="s")
        stages.prompt("again", piece)
        stages.think()
        assert stages.thinker_model.computed == before
        stages.close("again")
        replies = stages.finish()
        steps = len(replies["again"].tokens) - 1
        assert stages.thinker_model.computed - before == 1 + steps
    assert same(replies["again"], replies["first"])


def test_what_differs_from_the_last_turn_is_computed_anew(world: World) -> None:
    """The same ids, but another sound; and the same sound in another session."""
    piece = world.piece(SOUND)
    assert piece.rows is not None
    rows = piece.rows.copy()
    rows[3] += 1.0
    changed = Piece(piece.tokens, rows, piece.at, piece.deepstack, piece.positions)
    with Stages(world, **SHORT) as stages:
        stages.ask("first", piece, session="s")
        stages.ask("elsewhere", piece, session="t")
        stages.finish()
        assert stages.thinker_model.computed >= 2 * len(piece)
        stages.ask("changed", changed, session="s")
        ours = stages.finish()["changed"]
    assert same(ours, answer(world, changed, stages=SHORT))


def test_an_interrupted_answer_leaves_its_prompt_to_the_next_turn(world: World) -> None:
    piece = world.piece("text")
    with Stages(world, **SHORT) as stages:
        stages.open("first", session="s")
        stages.prompt("first", piece)
        stages.think()
        stages.abort("first")
        stages.think()
        before = stages.thinker_model.computed
        stages.ask("second", piece, session="s")
        ours = stages.finish()["second"]
        assert stages.thinker_model.computed - before == len(ours.tokens)
    assert same(ours, alone(world, "text"))


# -- faults ------------------------------------------------------------------------------------------------------------


def failed(reply: Reply) -> FailedOut:
    [failure] = reply.failed
    return failure


def test_an_unknown_voice_is_refused(world: World) -> None:
    reply = answer(world, world.piece("text"), stages=SHORT, voice="nobody")
    error = failed(reply).error
    assert error.code == "invalid_value"
    assert "ethan" in str(error)


def test_a_parameter_of_another_type_is_refused(world: World) -> None:
    with Stages(world, **SHORT) as stages:
        stages.open("r", temperature="hot")
        stages.think()
        assert failed(stages.replies["r"]).error.code == "invalid_value"


def test_a_prompt_that_does_not_end_with_the_answers_header_is_refused(world: World) -> None:
    piece = world.piece("text")
    [user, _] = cut(piece, {len(piece) - 3})
    with Stages(world, **SHORT) as stages:
        stages.ask("bad", user)
        stages.ask("good", piece)
        replies = stages.finish_but("bad")
    assert failed(replies["bad"]).error.code == "invalid_value"
    assert same(replies["good"], alone(world, "text"))


def test_a_piece_that_does_not_fit_the_model_fails_its_request_alone(world: World) -> None:
    piece = world.piece("2.37 s of sound")
    assert piece.rows is not None
    narrow = Piece(piece.tokens, piece.rows[:, :-1], piece.at)
    with Stages(world, **SHORT) as stages:
        stages.ask("bad", narrow)
        stages.ask("good", world.piece("text"))
        replies = stages.finish_but("bad")
    assert failed(replies["bad"]).error.code == "invalid_value"
    assert same(replies["good"], alone(world, "text"))
