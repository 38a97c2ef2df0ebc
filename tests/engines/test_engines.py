"""What every engine promises, whatever computes underneath."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import LlamaForCausalLM

from tests.engines.driver import Driver, row
from voice_omni.engines.ctranslate2_engine import CTranslate2Engine
from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.engines.torch_model import LanguageModel


def prompt(seed: int, length: int = 20) -> list[int]:
    return random.Random(seed).choices(range(3, 250), k=length)


def test_rows_together_get_the_tokens_of_rows_alone(driver: Driver) -> None:
    alone = [driver.run(row(f"alone-{n}", prompt(n)))[f"alone-{n}"] for n in range(5)]
    together = driver.run(*(row(f"together-{n}", prompt(n)) for n in range(5)))
    assert list(together.values()) == alone


def test_a_row_ends_at_its_length(driver: Driver) -> None:
    assert len(driver.run(row("a", prompt(1), tokens=7))["a"]) == 7
    assert driver.reason("a") == "length"


def test_a_row_ends_before_a_stop_token_which_is_not_reported(driver: Driver) -> None:
    free = driver.run(row("free", prompt(2)))["free"]
    stop = next(token for token in reversed(free) if free.index(token) > 0)
    stopped = driver.run(row("stopped", prompt(2), stop=frozenset({stop})))["stopped"]
    assert stopped == free[: free.index(stop)]
    assert driver.reason("stopped") == "stop"


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_a_paused_row_goes_on_where_it_was_and_the_others_do_not_wait(driver: Driver, penalty: float) -> None:
    sampling = Sampling(repetition_penalty=penalty)
    expected = driver.run(row("expected", prompt(3), sampling=sampling))["expected"]
    with driver.caught(row("paused", prompt(3), sampling=sampling)):
        driver.engine.pause("paused")
    # More rows than could run beside one that kept its place.
    driver.run(*(row(f"other-{n}", prompt(n)) for n in range(6)))
    assert "paused" not in driver.finished
    driver.engine.resume("paused")
    driver.finish("paused")
    assert driver.tokens["paused"] == expected


def test_a_row_paused_before_it_began_waits(driver: Driver) -> None:
    expected = driver.run(row("expected", prompt(4)))["expected"]
    with contextlib.ExitStack() as stack:
        # All places are taken.
        for n in range(3):
            driver.hold()
            driver.engine.add(row(f"first-{n}", prompt(n)))
        stack.callback(driver.release)
        driver.engine.add(row("late", prompt(4)))
        driver.engine.pause("late")
    driver.run(row("other", prompt(5)))
    assert "late" not in driver.finished
    driver.engine.resume("late")
    driver.finish("late")
    assert driver.tokens["late"] == expected


@pytest.mark.parametrize("paused", [False, True])
def test_a_removed_row_is_reported_once_and_leaves_nothing(driver: Driver, paused: bool) -> None:
    with driver.caught(row("gone", prompt(6))):
        if paused:
            driver.engine.pause("gone")
        driver.engine.remove("gone")
        driver.engine.remove("gone")
    driver.finish("gone")
    assert driver.reason("gone") == "removed"
    assert set(driver.engine.stats().values()) == {0}


def test_unknown_rows_are_nobodys_business(driver: Driver) -> None:
    driver.engine.pause("nobody")
    driver.engine.resume("nobody")
    driver.engine.remove("nobody")
    assert not driver.engine.busy


@pytest.mark.parametrize("penalty", [1.0, 1.2])
def test_the_engines_agree(llama: LlamaForCausalLM, llama_folder: Path, penalty: float) -> None:
    drivers = [Driver(TorchEngine(LanguageModel(llama))), Driver(CTranslate2Engine(llama_folder))]
    rows = [
        row(str(n), prompt(n, 5 + 7 * n), prefix_len=4, sampling=Sampling(repetition_penalty=penalty)) for n in range(6)
    ]
    first, second = (driver.run(*rows) for driver in drivers)
    for driver in drivers:
        driver.engine.stop()
    assert first == second


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    commands=st.lists(
        st.tuples(st.sampled_from(["add", "pause", "resume", "remove", "turn"]), st.integers(0, 5)), max_size=40
    )
)
def test_nothing_is_left_after_any_sequence_of_calls(llama_folder: Path, commands: list[tuple[str, int]]) -> None:
    engine = CTranslate2Engine(llama_folder, max_rows=2)
    driver = Driver(engine)
    expected = {n: driver.run(row(f"expected-{n}", prompt(n)))[f"expected-{n}"] for n in {n for _, n in commands}}
    living: dict[int, str] = {}
    for step, (command, n) in enumerate(commands):
        name = living.get(n)
        if command == "add" and (name is None or name in driver.finished):
            living[n] = f"{n}-{step}"
            engine.add(row(living[n], prompt(n)))
        elif command == "turn" and engine.busy:
            driver.turn()
        elif command in {"pause", "resume", "remove"} and name is not None and name not in driver.finished:
            getattr(engine, command)(name)
    for name in living.values():
        engine.resume(name)
    driver.finish(*living.values())
    for n, name in living.items():
        tokens = driver.tokens[name]
        assert tokens == expected[n] or (driver.reason(name) == "removed" and tokens == expected[n][: len(tokens)])
    assert set(engine.stats().values()) == {0}
    engine.stop()
