"""The thinker's stage on SGLang says what the published model says, and shows the talker the same rows of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.engines.sglang.contract.conftest import DEVICE, assert_nothing_held, chosen
from tests.engines.sglang.contract.thinking import Case, Thinking, Thought, read_cases
from tests.models.qwen3_omni.segments import cut
from voice_omni.models.qwen3_omni.wire import LIVE, PROMPT, ROWS
from voice_omni.scheduling.interface import AbortedOut, ResultOut

NAMES = ("text", "sound", "long sound", "turns", "picture", "film", "picture and film")
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def cases(omni: Path) -> dict[str, Case]:
    return read_cases(omni / "cases.npz")


@pytest.fixture(scope="module")
def running(omni: Path, _ready: None) -> Iterator[Thinking]:
    from voice_omni.engines.sglang.options import SglangSettings
    from voice_omni.models.qwen3_omni import stages
    from voice_omni.models.qwen3_omni.options import ThinkerOptions
    from voice_omni.pipeline.spec import StageContext

    of_device = chosen(omni, prefill_chunk=64)
    settings = SglangSettings(**{name: getattr(of_device, name) for name in SglangSettings.__struct_fields__})
    options = ThinkerOptions(engine="sglang", precision="float32", max_new_tokens=12, sglang=settings)
    context = StageContext(stage="thinker", options=options, device=DEVICE, threads=1, model=str(omni))
    thinking = Thinking(stages.thinker(context))
    yield thinking
    thinking.stop()
    assert set(thinking.engine.stats().values()) == {0}


@pytest.fixture
def stage(running: Thinking) -> Iterator[Thinking]:
    """Requests keep their prompts apart by sessions of their own."""
    yield running
    assert not any(running.stats.values())
    assert_nothing_held(running.engine._thread.scheduler)
    running.cached()
    running.thoughts.clear()


def assert_answered(thought: Thought, case: Case) -> None:
    assert isinstance(thought.ended, ResultOut), thought.ended
    assert thought.tokens == case.said
    if case.piece.at is not None:
        np.testing.assert_allclose(thought.hidden, case.hidden, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_at_once(stage: Thinking, cases: dict[str, Case], name: str) -> None:
    assert_answered(stage.ask(f"{name} at once", cases[name].piece), cases[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_in_pieces_of_which_each_is_computed_as_it_comes(
    stage: Thinking, cases: dict[str, Case], name: str
) -> None:
    case, request = cases[name], f"{name} in pieces"
    places = range(7, len(case.piece), 13)
    stage.open(request)
    cached = []
    for piece in cut(case.piece, places):
        stage.prompt(request, piece)
        cached += stage.cached(1)
    stage.close(request)
    stage.finish(request)
    assert_answered(stage.thoughts[request], case)
    assert [*cached, *stage.cached(1)] == [0, *places, len(case.piece) - 1]


def test_the_next_turn_of_a_session_finds_its_prompt_and_the_rows_of_it(
    stage: Thinking, cases: dict[str, Case]
) -> None:
    case = cases["turns"]
    assert case.piece.at is not None
    [second] = np.flatnonzero(np.diff(case.piece.at) > 1) + 1
    answer = int(case.piece.at[second - 1]) + 6
    stage.ask("first turn", cut(case.piece, [answer])[0], session="turns")
    stage.cached()
    assert_answered(stage.ask("second turn", case.piece, session="turns"), case)
    assert stage.cached()[0] == answer
    assert second > 5
    assert_answered(stage.ask("another session", case.piece), case)
    assert stage.cached()[0] == 0


def test_the_same_prompt_again_finds_all_its_rows(stage: Thinking, cases: dict[str, Case]) -> None:
    case = cases["picture and film"]
    stage.ask("once", case.piece, session="again")
    stage.cached()
    assert_answered(stage.ask("twice", case.piece, session="again"), case)
    assert stage.cached()[0] == len(case.piece) - 1


def test_prompts_beside_each_other(stage: Thinking, cases: dict[str, Case]) -> None:
    for number in range(2):
        for name in NAMES:
            stage.open(f"{name} {number}")
    for name in NAMES:
        for piece in cut(cases[name].piece, range(9, len(cases[name].piece), 31)):
            stage.prompt(f"{name} 0", piece)
            stage.prompt(f"{name} 1", piece)
    for number in range(2):
        for name in NAMES:
            stage.close(f"{name} {number}")
    stage.finish(*stage.thoughts)
    for name in NAMES:
        for number in range(2):
            assert_answered(stage.thoughts[f"{name} {number}"], cases[name])


def test_rows_that_louder_sound_has_changed_are_taken_back(stage: Thinking, cases: dict[str, Case]) -> None:
    case = cases["sound"]
    piece, at = case.piece, case.piece.at
    assert at is not None
    assert piece.rows is not None
    assert piece.positions is not None
    first, count = int(at[0]), len(at)
    before, live, behind = cut(piece, [first, first + count])
    assert behind.positions is not None
    stage.open("louder")
    stage.prompt("louder", before)
    place = {"tokens": live.tokens[:1], "positions": piece.positions[:, first : first + 1], "medium": LIVE}
    stage.chunk("louder", {PROMPT: [place]})
    stage.cached(1)
    for start, end, wrong in ((0, 13, False), (13, 26, True)):
        rows = -piece.rows[start:end] if wrong else piece.rows[start:end]
        stage.chunk("louder", {ROWS: {"medium": LIVE, "heard": rows, "first": start}})
        # Nothing is taken back that the talker was not shown.
        stage.until(lambda end=end: sum(len(part["hidden"]) for part in stage.thoughts["louder"].parts) >= end)
    stage.chunk("louder", {ROWS: {"medium": LIVE, "heard": piece.rows[13:], "first": 13, "ended": True}})
    stage.prompt("louder", replace(behind, positions=behind.positions - count))
    stage.close("louder")
    stage.finish("louder")
    assert stage.thoughts["louder"].taken_back == 1
    assert_answered(stage.thoughts["louder"], case)


@pytest.mark.parametrize("when", ["opened", "fed", "prefilled", "closed", "speaking", "at its end"])
def test_an_aborted_request_leaves_nothing(stage: Thinking, cases: dict[str, Case], when: str) -> None:
    case, name = cases["long sound"], f"aborted when {when}"
    head, tail = cut(case.piece, [90])
    stage.open(name, max_output_tokens=12 if when == "at its end" else 100)
    if when != "opened":
        stage.prompt(name, head)
    if when == "prefilled":
        stage.cached(1)
    if when in ("closed", "speaking", "at its end"):
        stage.prompt(name, tail)
        stage.close(name)
    if when in ("speaking", "at its end"):
        stage.until(lambda: len(stage.thoughts[name].tokens) >= (3 if when == "speaking" else 12))
    if when == "at its end":
        stage.finish(name)
    else:
        stage.abort(name)
        stage.finish(name)
        assert isinstance(stage.thoughts[name].ended, AbortedOut)
    assert stage.thoughts[name].tokens == case.said[: len(stage.thoughts[name].tokens)] or when == "speaking"
