"""Rows on SGLang keep the engine seam's promises."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.sglang.contract.conftest import Bench
from tests.engines.sglang.contract.tiny import VOCABULARY, greedy, penalised, prompt
from voice_omni.engines.interface import Row, Sampling, StreamedEngine
from voice_omni.proto.errors import OmniError


def row(name: str, ids: list[int], *, tokens: int = 12, stop: frozenset[int] = frozenset(), **rest: Any) -> Row:
    rest.setdefault("session", name)
    return Row(name, ids, tokens, stop, **rest)


def test_it_is_a_streamed_engine(bench: Bench) -> None:
    assert isinstance(bench.engine, StreamedEngine)


def test_the_scheduler_waits_for_no_other_thread_for_long(bench: Bench) -> None:
    assert sys.getswitchinterval() < 0.001


@pytest.mark.parametrize("length", [1, 20, 150])
def test_greedy_tokens_are_those_of_transformers(bench: Bench, tiny: Path, length: int) -> None:
    name = f"greedy-{length}"
    assert bench.driver.run(row(name, prompt(length, length)))[name] == greedy(tiny, prompt(length, length), 12)


def test_rows_together_get_the_tokens_of_rows_alone(bench: Bench) -> None:
    alone = [bench.driver.run(row(f"alone-{n}", prompt(n)))[f"alone-{n}"] for n in range(12)]
    together = bench.driver.run(*(row(f"together-{n}", prompt(n)) for n in range(12)))
    assert list(together.values()) == alone


def test_a_row_ends_at_its_length(bench: Bench) -> None:
    assert len(bench.driver.run(row("length", prompt(1), tokens=7))["length"]) == 7
    assert bench.driver.reason("length") == "length"


def test_a_row_ends_before_a_stop_token_which_is_not_reported(bench: Bench) -> None:
    free = bench.driver.run(row("free", prompt(2)))["free"]
    stop = next(token for token in reversed(free) if free.index(token) > 0)
    stopped = bench.driver.run(row("stopped", prompt(2), stop=frozenset({stop})))["stopped"]
    assert stopped == free[: free.index(stop)]
    assert bench.driver.reason("stopped") == "stop"


def test_only_the_rows_own_stop_tokens_end_it(bench: Bench, tiny: Path) -> None:
    """SGLang also stops at what the checkpoint calls the end of a sequence, once a request names any stop token."""
    free = greedy(tiny, prompt(2), 12)
    assert bench.scheduler.model_config.hf_eos_token_id & set(free[:-1])
    other = next(token for token in range(3, VOCABULARY) if token not in free)
    assert bench.driver.run(row("on", prompt(2), stop=frozenset({other})))["on"] == free


def test_suppressed_tokens_are_never_drawn(bench: Bench) -> None:
    free = bench.driver.run(row("unhindered", prompt(3)))["unhindered"]
    sampling = Sampling(suppress=frozenset(free))
    assert not set(bench.driver.run(row("hindered", prompt(3), sampling=sampling))["hindered"]) & set(free)


def test_a_drawn_row_keeps_to_its_top_k(bench: Bench) -> None:
    greedy_one = bench.driver.run(row("top", prompt(3)))["top"]
    sampling = Sampling(temperature=5.0, top_k=1)
    assert bench.driver.run(row("top-1", prompt(3), sampling=sampling))["top-1"] == greedy_one
    wide = Sampling(temperature=5.0)
    assert bench.driver.run(row("wide", prompt(3), sampling=wide))["wide"] != greedy_one


def test_a_paused_row_goes_on_where_it_was_and_pays_for_its_last_token_only(bench: Bench, tiny: Path) -> None:
    ids, paused, said = prompt(3), row("paused", prompt(3), tokens=24), 0
    for begin in (lambda: bench.engine.add(paused), *[lambda: bench.engine.resume("paused")] * 3):
        bench.cached()
        with bench.driver.held("paused", begin):
            bench.engine.pause("paused")
        bench.settle()
        assert bench.cached() == [len(ids) + said - 1 if said else 0]
        said = len(bench.driver.tokens["paused"])
        assert said < 24
        bench.driver.run(*(row(f"other-{said}-{n}", prompt(n)) for n in range(3)))
        assert len(bench.driver.tokens["paused"]) == said, "a paused row does not run"
    bench.engine.resume("paused")
    bench.driver.finish("paused")
    assert bench.driver.tokens["paused"] == greedy(tiny, ids, 24)


def test_a_row_may_be_resumed_while_its_pause_is_under_way(bench: Bench) -> None:
    expected = bench.driver.run(row("calm", prompt(4)))["calm"]
    with bench.driver.caught(row("hasty", prompt(4))):
        for _ in range(3):
            bench.engine.pause("hasty")
            bench.engine.resume("hasty")
    bench.driver.finish("hasty")
    assert bench.driver.tokens["hasty"] == expected


def test_a_row_paused_before_it_began_waits(bench: Bench) -> None:
    bench.engine.add(row("late", prompt(5)))
    bench.engine.pause("late")
    bench.settle()
    assert "late" not in bench.driver.finished
    bench.engine.resume("late")
    bench.driver.finish("late")
    assert bench.driver.tokens["late"] == bench.driver.run(row("prompt", prompt(5)))["prompt"]


@pytest.mark.parametrize("paused", [False, True])
def test_a_removed_row_is_reported_once_and_leaves_nothing(bench: Bench, paused: bool) -> None:
    name = f"gone-{paused}"
    with bench.driver.caught(row(name, prompt(6), tokens=200)):
        if paused:
            bench.engine.pause(name)
        bench.engine.remove(name)
        bench.engine.remove(name)
    bench.driver.finish(name)
    assert bench.driver.reason(name) == "removed"


def test_unknown_rows_are_nobodys_business(bench: Bench) -> None:
    for call in (bench.engine.pause, bench.engine.resume, bench.engine.remove):
        call("nobody")
    bench.feed("nobody", [1])
    assert not bench.engine.busy


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_prompt_in_pieces_is_the_prompt_and_each_piece_is_computed_once(bench: Bench, cut: int) -> None:
    name, ids = f"pieces-{cut}", prompt(7, 12)
    whole = bench.driver.run(row(f"whole-{cut}", ids))[f"whole-{cut}"]
    bench.cached()
    bench.engine.add(row(name, [], open=True))
    bench.feed(name, ids[:cut])
    bench.settle()
    assert not bench.driver.tokens.get(name)
    bench.feed(name, ids[cut:], closed=True)
    bench.driver.finish(name)
    assert bench.driver.tokens[name] == whole
    assert bench.cached() == [0, cut]


def test_a_prompt_in_every_piece_of_one_token(bench: Bench) -> None:
    ids = prompt(8, 12)
    whole = bench.driver.run(row("in-one", ids))["in-one"]
    bench.engine.add(row("in-twelve", [], open=True))
    for token in ids:
        bench.feed("in-twelve", [token])
    bench.feed("in-twelve", closed=True)
    bench.driver.finish("in-twelve")
    assert bench.driver.tokens["in-twelve"] == whole


def test_a_prompt_closed_without_more_is_computed_but_for_its_last_token_already(bench: Bench) -> None:
    bench.engine.add(row("closed", prompt(9, 12), open=True))
    bench.settle()
    bench.feed("closed", closed=True)
    bench.driver.finish("closed")
    assert bench.cached() == [0, 11]


def test_a_paused_row_takes_in_but_does_not_run(bench: Bench) -> None:
    bench.engine.add(row("taking", [], open=True))
    bench.engine.pause("taking")
    bench.feed("taking", prompt(1), closed=True)
    assert bench.engine.stats()["requests"] == 0
    bench.engine.resume("taking")
    bench.driver.finish("taking")
    assert bench.driver.tokens["taking"] == bench.driver.run(row("taken", prompt(1)))["taken"]


def test_sessions_find_what_their_own_rows_have_said_and_nothing_of_others(bench: Bench) -> None:
    said = bench.driver.run(row("turn-1", prompt(10), session="mine"))["turn-1"]
    bench.cached()
    second = [*prompt(10), *said, *prompt(11)]
    bench.driver.run(row("turn-2", second, session="mine"))
    # Whether the last token said has been through the model depends on how far ahead SGLang launches.
    [found] = bench.cached()
    assert found >= len(prompt(10)) + len(said) - 1
    bench.driver.run(row("stranger", second, session="another"))
    assert bench.cached() == [0]


def test_rows_without_a_session_share(bench: Bench) -> None:
    bench.driver.run(row("first", prompt(12), session=None))
    bench.cached()
    bench.driver.run(row("second", [*prompt(12), 5], session=None))
    assert bench.cached() == [len(prompt(12))]


@pytest.mark.parametrize("ids", [[], [VOCABULARY], [-1]])
def test_a_prompt_that_would_end_the_scheduler_is_refused(bench: Bench, ids: list[int]) -> None:
    with pytest.raises(OmniError) as raised:
        bench.engine.add(row("wrong", ids))
    assert raised.value.code == "invalid_value"


def test_a_prompt_that_is_too_long_fails_its_row_alone(bench: Bench) -> None:
    bench.engine.add(row("long", prompt(1, 600)))
    bench.engine.add(row("short", prompt(1)))
    errors: list[Exception | None] = []
    while not errors or "short" not in bench.driver.finished:
        bench.driver.awake.wait(timeout=60)
        bench.driver.awake.clear()
        for output in bench.engine.step():
            if output.row_id == "long":
                errors.append(output.error)
            elif output.finish is not None:
                bench.driver.finished[output.row_id] = output
    assert [error.code for error in errors if isinstance(error, OmniError)] == ["invalid_value"]


def test_a_row_ends_where_the_models_context_does(bench: Bench) -> None:
    assert 0 < len(bench.driver.run(row("full", prompt(1, 480), tokens=100))["full"]) < 100
    assert bench.driver.reason("full") == "length"


def test_nothing_is_left_after_a_thousand_random_calls(bench: Bench) -> None:
    dice = random.Random(1)
    length = {n: dice.randint(1, 40) for n in range(10)}
    expected = {n: bench.driver.run(row(f"known-{n}", prompt(n, length[n])))[f"known-{n}"] for n in range(10)}
    living: dict[int, str] = {}
    fed: dict[str, int] = {}
    for step in range(1000):
        n = dice.randrange(10)
        name = living.get(n)
        if name is None or name in bench.driver.finished:
            living[n] = name = f"{n}-{step}"
            is_open = dice.random() < 0.5
            fed[name] = dice.randrange(length[n]) if is_open else length[n]
            bench.engine.add(row(name, prompt(n, length[n])[: fed[name]], open=is_open, session=f"random-{n}"))
            continue
        match dice.choice(["feed", "feed", "pause", "resume", "remove", "turn", "turn", "turn"]):
            case "feed" if fed[name] < length[n]:
                end = dice.randint(fed[name] + 1, length[n])
                bench.feed(name, prompt(n, length[n])[fed[name] : end], closed=end == length[n])
                fed[name] = end
            case "turn" if bench.engine.busy:
                bench.driver.turn()
            case "pause" | "resume" as command:
                getattr(bench.engine, command)(name)
            case "remove" if dice.random() < 0.3:
                bench.engine.remove(name)
    for n, name in living.items():
        if name not in bench.driver.finished:
            bench.engine.resume(name)
            if fed[name] < length[n]:
                bench.feed(name, prompt(n, length[n])[fed[name] :], closed=True)
    bench.driver.finish(*living.values())
    for name, output in bench.driver.finished.items():
        if name in fed:
            tokens, whole = bench.driver.tokens[name], expected[int(name.split("-")[0])]
            assert tokens == whole or (output.finish == "removed" and tokens == whole[: len(tokens)]), name


def test_the_starters_model_says_what_transformers_says(make: Callable[..., Bench], smol: Path) -> None:
    question = [504, 3575, 282, 4649, 314]  # The capital of France is
    bench = make(smol)
    assert bench.driver.run(row("smol", question, tokens=8))["smol"] == greedy(smol, question, 8)


def test_a_penalty_is_that_of_its_authors_and_survives_pauses(make: Callable[..., Bench], tiny: Path) -> None:
    """Where SGLang does not overlap its steps. Where it does, it launches a step before it knows the last token, which
    this step does not penalise."""
    bench = make(tiny, server_args={"disable_overlap_schedule": True})
    sampling = Sampling(repetition_penalty=1.3)
    for n in range(3, 7):
        expected = penalised(tiny, prompt(n), 24, 1.3)
        assert bench.driver.run(row(f"free-{n}", prompt(n), sampling=sampling, tokens=24))[f"free-{n}"] == expected
        bench.engine.add(row(f"paused-{n}", prompt(n), sampling=sampling, tokens=24))
        for _ in range(4):
            with bench.driver.held(f"paused-{n}", lambda name=f"paused-{n}": bench.engine.resume(name)):
                bench.engine.pause(f"paused-{n}")
            bench.settle()
        bench.engine.resume(f"paused-{n}")
        bench.driver.finish(f"paused-{n}")
        assert bench.driver.tokens[f"paused-{n}"] == expected


def test_a_scheduler_that_died_is_not_waited_for(make: Callable[..., Bench], tiny: Path) -> None:
    bench = make(tiny)
    with bench.driver.caught(row("mourned", prompt(1), tokens=400)):
        bench.engine._thread.put(object())
    with pytest.raises(RuntimeError, match="died"):
        bench.driver.finish("mourned")
    assert bench.dead
