from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import pytest

from tests.engines.driver import Driver, row
from tests.engines.test_engines import prompt
from voice_omni.engines.ctranslate2_engine import CTranslate2Engine
from voice_omni.proto.errors import OmniError


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match=str(tmp_path)) as raised:
        CTranslate2Engine(tmp_path)
    assert raised.value.code == "weights_missing"


def test_no_thread_survives_stop(llama_folder: Path) -> None:
    before = threading.active_count()
    engine = CTranslate2Engine(llama_folder, max_rows=2)
    driver = Driver(engine)
    with driver.caught(row("paused", prompt(1))):
        engine.pause("paused")
        for name in ("running", "waiting"):
            engine.add(row(name, prompt(1), tokens=400))
    engine.stop()
    assert threading.active_count() == before
    assert set(engine.stats().values()) == {0}
    assert not engine.busy


def test_a_kept_prefix_changes_nothing(llama_folder: Path) -> None:
    engine = CTranslate2Engine(llama_folder)
    driver = Driver(engine)
    plain = driver.run(row("plain", prompt(1, 60)))["plain"]
    engine.warm(prompt(1, 60)[:40])
    kept = driver.run(*(row(f"kept-{n}", prompt(1, 60), prefix_len=40) for n in range(3)))
    engine.stop()
    assert set(map(tuple, kept.values())) == {tuple(plain)}


def test_a_prefix_may_not_be_the_whole_prompt(llama_folder: Path) -> None:
    engine = CTranslate2Engine(llama_folder)
    driver = Driver(engine)
    plain = driver.run(row("plain", prompt(1)))["plain"]
    assert driver.run(row("whole", prompt(1), prefix_len=20))["whole"] == plain
    engine.stop()


def test_more_prefixes_than_the_budget_are_computed_as_before(llama_folder: Path) -> None:
    engine = CTranslate2Engine(llama_folder, prefix_tokens=50)
    driver = Driver(engine)
    for n in range(12):
        plain, kept = driver.run(
            row(f"plain-{n}", prompt(n, 30)), row(f"kept-{n}", prompt(n, 30), prefix_len=20)
        ).values()
        assert plain == kept
    engine.stop()


def test_the_weights_are_not_kept_twice_when_prefixes_have_come_and_gone(llama_folder: Path) -> None:
    engine = CTranslate2Engine(llama_folder, prefix_tokens=60)
    driver = Driver(engine)
    opening = prompt(0, 20)
    loaded = []
    load = engine._load
    engine._load = lambda: loaded.append(weakref.ref(generator := load())) or generator  # type: ignore[method-assign]
    for n in range(12):
        driver.run(
            row(f"opening-{n}", [*opening, *prompt(n)], prefix_len=20), row(f"{n}", prompt(n, 45), prefix_len=40)
        )
    engine.stop()
    assert len(loaded) > 1
    gc.collect()
    assert [reference() for reference in loaded] == [None] * len(loaded)


def test_a_row_that_the_library_refuses_fails_alone(llama_folder: Path) -> None:
    engine = CTranslate2Engine(llama_folder)
    driver = Driver(engine)
    driver.run(row("refused", prompt(1), tokens=0), row("fine", prompt(2)))
    engine.stop()
    assert driver.finished["refused"].error is not None
    assert driver.reason("fine") == "length"
