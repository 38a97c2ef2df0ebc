"""The talker on SGLang writes the codes of the torch engine, however its rows run."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.sglang.contract.conftest import Bench
from tests.engines.sglang.contract.scenes import GREEDY, NEVER, SCENES, SUPPRESSED, WIDTH, Scene
from voice_omni.engines.interface import Feed, Piece, Row, Sampling
from voice_omni.proto.errors import OmniError

TALKATIVE = [name for name, scene in SCENES.items() if scene.tokens < 100]
ENDLESS = SCENES["endless"]
EAGER = {"schedule_conservativeness": 0.01}
"""Admit rows that will not fit to their end."""


@pytest.fixture(scope="module")
def shared(make: Callable[..., Bench], talker: Path) -> Bench:
    return make(talker, kv_tokens=4096, max_rows=6)


@pytest.fixture(scope="module")
def said(talker: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((talker / "said.json").read_text())
    return said


@pytest.fixture(scope="module")
def names() -> Callable[[Scene], str]:
    """A name, and so a session, of its own for each row."""
    numbers = count()
    return lambda scene: f"{scene.name} {next(numbers)}"


def start(bench: Bench, scene: Scene, name: str) -> str:
    bench.engine.add(scene.row(name))
    bench.engine.feed(name, scene.whole)
    return name


@contextmanager
def begun(bench: Bench, scene: Scene, name: str, feed: Feed) -> Iterator[None]:
    """Held a little behind its first frame, until the end of the block."""
    bench.engine.add(scene.row(name))
    bench.engine.feed(name, feed)
    bench.driver.until(name, 1)
    bench.driver.hold()
    try:
        yield
    finally:
        bench.driver.release()


def assert_said(bench: Bench, name: str, told: dict[str, Any]) -> None:
    assert bench.driver.tokens[name] == told["tokens"]
    assert bench.driver.frames[name] == told["frames"]
    assert bench.driver.reason(name) == told["finish"]


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_a_row_alone(bench: Bench, said: dict[str, Any], names: Callable[..., str], scene: Scene) -> None:
    """In turn: the end on the first frame, the length, prompts of one and many pieces, no text, more text than has
    place on the device, over 300 frames, penalties, and draws."""
    name = start(bench, scene, names(scene))
    bench.driver.finish(name)
    assert_said(bench, name, said[scene.name])


def test_rows_together_say_what_they_say_alone(bench: Bench, said: dict[str, Any], names: Callable[..., str]) -> None:
    """More of them than run at a time, of mixed lengths, greedy and drawn."""
    started = {start(bench, SCENES[name], names(SCENES[name])): name for name in TALKATIVE}
    bench.driver.finish(*started)
    for name, scene in started.items():
        assert_said(bench, name, said[scene])


def test_a_place_is_taken_again_while_the_others_run(bench: Bench, names: Callable[..., str]) -> None:
    long, short = SCENES["long speech"], SCENES["two tokens"]
    running = [start(bench, long, names(long)) for _ in range(5)]
    later = [start(bench, short, names(short)) for _ in range(3)]
    bench.driver.finish(*later)
    assert not bench.driver.finished.keys() & set(running)
    for name in running:
        bench.engine.remove(name)
    bench.driver.finish(*running)


def test_a_row_without_text_waits_alone_and_pays_for_nothing_twice(
    bench: Bench, said: dict[str, Any], names: Callable[..., str]
) -> None:
    scene, name = ENDLESS, names(ENDLESS)
    bench.engine.add(scene.row(name))
    bench.engine.feed(name, Feed(scene.pieces, closed=True))
    for number in range(6):
        bench.driver.until(name, number + 1)
        others = [start(bench, SCENES["row 0"], names(SCENES["row 0"])) for _ in range(2)]
        bench.driver.finish(*others)
        assert len(bench.driver.frames[name]) == number + 1, "it waits for the next condition, its frames are out"
        bench.engine.feed(name, Feed(conditions=scene.conditions[number : number + 1]))
    bench.engine.feed(name, Feed(conditions=scene.conditions[6:], ended=True))
    bench.driver.finish(name)
    assert_said(bench, name, said["endless"])
    assert len({reply.rid for reply in bench.replies if len(reply.tokens)}) == 1 + 12, "one request for each row"


def test_a_row_whose_text_has_not_ended_waits_behind_it(
    bench: Bench, said: dict[str, Any], names: Callable[..., str]
) -> None:
    scene, name = ENDLESS, names(ENDLESS)
    bench.engine.add(scene.row(name))
    bench.engine.feed(name, Feed(scene.pieces, closed=True, conditions=scene.conditions))
    bench.driver.until(name, scene.text + 1)
    bench.driver.finish(start(bench, SCENES["short"], names(SCENES["short"])))
    assert len(bench.driver.tokens[name]) == scene.text + 1
    bench.engine.feed(name, Feed(ended=True))
    bench.driver.finish(name)
    assert_said(bench, name, said["endless"])


def test_a_scheduler_with_nothing_but_waiting_rows_sleeps(bench: Bench, names: Callable[..., str]) -> None:
    scene = ENDLESS
    waiting = [names(scene) for _ in range(3)]
    for name in waiting:
        bench.engine.add(scene.row(name))
        bench.engine.feed(name, Feed(scene.pieces, closed=True))
        bench.driver.until(name, 1)
    turns = 0
    choose = bench.scheduler.get_next_batch_to_run

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal turns
        turns += 1
        return choose(*args, **kwargs)

    bench.scheduler.get_next_batch_to_run = counted
    time.sleep(0.3)
    del bench.scheduler.get_next_batch_to_run
    assert turns <= 3
    for name in waiting:
        bench.engine.remove(name)
    bench.driver.finish(*waiting)


@pytest.mark.parametrize("waiting", [False, True])
def test_a_paused_row_keeps_its_place_and_goes_on(
    bench: Bench, said: dict[str, Any], names: Callable[..., str], waiting: bool
) -> None:
    scene, name = ENDLESS, names(ENDLESS)
    with begun(bench, scene, name, Feed(scene.pieces, closed=True) if waiting else scene.whole):
        bench.engine.pause(name)
    bench.driver.finish(start(bench, SCENES["row 1"], names(SCENES["row 1"])))
    held = len(bench.driver.tokens[name])
    bench.driver.finish(start(bench, SCENES["row 2"], names(SCENES["row 2"])))
    assert len(bench.driver.tokens[name]) == held < scene.tokens
    bench.engine.resume(name)
    if waiting:
        bench.engine.feed(name, Feed(conditions=scene.conditions, ended=True))
    bench.driver.finish(name)
    assert_said(bench, name, said["endless"])


def test_a_row_paused_before_its_prompt_is_closed_does_not_begin(
    bench: Bench, said: dict[str, Any], names: Callable[..., str]
) -> None:
    name = names(ENDLESS)
    bench.engine.add(ENDLESS.row(name))
    bench.engine.pause(name)
    bench.engine.feed(name, ENDLESS.whole)
    assert bench.engine.stats()["requests"] == 0
    bench.engine.resume(name)
    bench.driver.finish(name)
    assert_said(bench, name, said["endless"])


@pytest.mark.parametrize("state", ["open", "closed", "running", "waiting", "paused", "queued"])
def test_a_removed_row_leaves_nothing_whatever_it_was_doing(
    bench: Bench, names: Callable[..., str], state: str
) -> None:
    scene, name = ENDLESS, names(ENDLESS)
    others = []
    if state == "queued":
        others = [names(scene) for _ in range(6)]
        for other in others:
            bench.engine.add(scene.row(other))
            bench.engine.feed(other, Feed(scene.pieces, closed=True))
            bench.driver.until(other, 1)
    bench.engine.add(scene.row(name))
    bench.engine.feed(name, Feed(scene.pieces))
    if state != "open":
        text = {"waiting": None, "queued": None}.get(state, scene.conditions)
        bench.engine.feed(name, Feed(closed=True, conditions=text))
    if state in ("running", "waiting", "paused"):
        bench.driver.until(name, 1)
    if state == "paused":
        bench.engine.pause(name)
        bench.driver.finish(start(bench, SCENES["short"], names(SCENES["short"])))
    for each in (name, *others):
        bench.engine.remove(each)
    bench.engine.remove(name)
    bench.driver.finish(name, *others)
    assert bench.driver.reason(name) == "removed"


def test_other_sessions_prompts_are_not_computed_again(bench: Bench, names: Callable[..., str]) -> None:
    """What the person has said is prefilled as it comes, and is there for the session's next answer."""
    scene, session = SCENES["long prompt"], names(ENDLESS)
    bench.replies.clear()
    name = names(scene)
    bench.engine.add(scene.row(name, session))
    for piece in scene.pieces[:-1]:
        bench.engine.feed(name, Feed([piece]))
        bench.settle()
    bench.engine.feed(name, replace(scene.whole, pieces=scene.pieces[-1:]))
    bench.driver.finish(name)
    assert bench.cached() == [0, 40, 41, 71]
    again = names(scene)
    bench.engine.add(scene.row(again, session))
    bench.engine.feed(again, scene.whole)
    bench.driver.finish(again)
    assert bench.cached() == [78]
    assert bench.driver.frames[again] == bench.driver.frames[name]


@pytest.mark.parametrize(
    "feed",
    [
        Feed(conditions=np.zeros((1, WIDTH + 1), np.float32)),
        Feed(conditions=np.zeros(WIDTH, np.float32)),
        Feed([Piece([5, 6])], closed=True),
        Feed([Piece([5], np.zeros((1, WIDTH), np.float32))], closed=True),
    ],
)
def test_what_the_model_cannot_read_is_refused(bench: Bench, names: Callable[..., str], feed: Feed) -> None:
    name = names(ENDLESS)
    bench.engine.add(ENDLESS.row(name))
    with pytest.raises(OmniError) as raised:
        bench.engine.feed(name, feed)
    assert raised.value.code == "invalid_value"
    bench.engine.remove(name)
    bench.driver.finish(name)


@pytest.mark.parametrize(
    "row",
    [
        Row("r", [], 5, frozenset({0}), open=True),
        Row("r", [], 5, NEVER, Sampling(suppress=frozenset({3})), open=True),
        Row("r", [], 5, NEVER, open=True, padding=np.zeros(WIDTH - 1, np.float32)),
        Row("r", [1, 2, 3], 5, NEVER),
    ],
)
def test_a_row_that_the_model_cannot_compute_is_refused(bench: Bench, row: Row) -> None:
    with pytest.raises(OmniError) as raised:
        bench.engine.add(row)
    assert raised.value.code == "invalid_value"


def test_conditions_do_not_follow_their_end(bench: Bench, names: Callable[..., str]) -> None:
    name = start(bench, ENDLESS, names(ENDLESS))
    with pytest.raises(OmniError):
        bench.engine.feed(name, Feed(conditions=ENDLESS.conditions))
    bench.driver.finish(name)


def test_a_row_without_padding_reads_its_frames_alone(bench: Bench, names: Callable[..., str]) -> None:
    """As one whose padding is nothing."""
    scene = replace(ENDLESS, text=0)
    silent = replace(scene.row(names(scene)), padding=np.zeros(WIDTH, np.float32))
    bench.engine.add(silent)
    bench.engine.feed(silent.row_id, Feed(scene.pieces, closed=True, ended=True))
    without = replace(scene.row(names(scene)), padding=None)
    bench.engine.add(without)
    bench.engine.feed(without.row_id, Feed(scene.pieces, closed=True))
    bench.driver.finish(silent.row_id, without.row_id)
    assert bench.driver.frames[silent.row_id] == bench.driver.frames[without.row_id]


def test_nothing_is_left_after_random_calls(bench: Bench, said: dict[str, Any]) -> None:
    dice = random.Random(1)
    scenes = [
        SCENES[name] for name in ("endless", "short", "row 1", "row 5", "drawn 0", "drawn 1", "penalised", "plain")
    ]
    living: dict[int, str] = {}
    fed: dict[str, tuple[int, int, bool]] = {}
    names: dict[str, Scene] = {}
    for step in range(1000):
        at = dice.randrange(len(scenes))
        scene, name = scenes[at], living.get(at)
        if name is None or name in bench.driver.finished:
            living[at] = name = f"random {scene.name} {step}"
            bench.engine.add(scene.row(name, f"random {at}"))
            names[name], fed[name] = scene, (0, 0, False)
            continue
        pieces, text, ended = fed[name]
        match dice.choice(
            ["piece", "piece", "text", "text", "pause", "resume", "remove", "turn", "turn", "turn", "turn"]
        ):
            case "piece" if pieces < len(scene.prompt):
                fed[name] = pieces + 1, text, ended
                last = pieces + 1 == len(scene.prompt)
                bench.engine.feed(name, Feed([scene.pieces[pieces]], closed=last))
            case "text" if not ended:
                more = dice.randint(0, 5)
                ended = text + more >= scene.text
                bench.engine.feed(name, Feed(conditions=scene.conditions[text : text + more], ended=ended))
                fed[name] = pieces, min(text + more, scene.text), ended
            case "turn":
                # The rows may all be waiting.
                bench.driver.awake.wait(timeout=0.02)
                if bench.engine.busy:
                    bench.driver.turn()
            case "pause" | "resume" as command:
                getattr(bench.engine, command)(name)
            case "remove" if dice.random() < 0.3:
                bench.engine.remove(name)
    for name in living.values():
        if name in bench.driver.finished:
            continue
        scene, (pieces, text, ended) = names[name], fed[name]
        bench.engine.resume(name)
        if pieces < len(scene.prompt):
            bench.engine.feed(name, Feed(scene.pieces[pieces:], closed=True))
        if not ended:
            bench.engine.feed(name, Feed(conditions=scene.conditions[text:], ended=True))
    bench.driver.finish(*living.values())
    assert len(names) > len(scenes)
    for name, scene in names.items():
        told, frames = said[scene.name], bench.driver.frames.get(name, [])
        removed = bench.driver.reason(name) == "removed"
        assert frames == told["frames"] or (removed and frames == told["frames"][: len(frames)]), name


def test_rows_that_outgrow_the_pool_are_taken_back_and_say_the_same(
    make: Callable[..., Bench], talker: Path, said: dict[str, Any]
) -> None:
    """Also one that waits meanwhile, and one that draws with a penalty on what it said before."""
    small = make(talker, kv_tokens=106, max_rows=5, server_args=EAGER)
    waiting = SCENES["row 3"]
    small.engine.add(waiting.row("waiting"))
    small.engine.feed("waiting", Feed(waiting.pieces, closed=True, conditions=waiting.conditions[:3]))
    small.driver.until("waiting", 4)
    started = {name: SCENES[name] for name in ("no text", "drawn of three", "endless", "row 1")}
    # One that ignores ends would wait for its place. This one's is never drawn.
    started["endless"] = replace(ENDLESS, stop=frozenset({min(SUPPRESSED)}))
    first, second, *others = started

    def begin() -> None:
        for name in (first, second):
            start(small, started[name], name)

    # Of those that come together, SGLang admits what fits to its end.
    with small.driver.held(second, begin):
        for name in others:
            start(small, started[name], name)
    small.driver.finish(*started)
    assert any(reply.end == "taken_back" for reply in small.replies)
    small.engine.feed("waiting", Feed(conditions=waiting.conditions[3:], ended=True))
    small.driver.finish("waiting")
    for name in started:
        assert_said(small, name, said[name])
    assert_said(small, "waiting", said["row 3"])
    small.assert_nothing_held()


def test_a_row_for_which_the_pool_has_no_place_at_all_fails_alone(make: Callable[..., Bench], talker: Path) -> None:
    small = make(talker, kv_tokens=60, max_rows=4)
    long = replace(ENDLESS, name="long", prompt=(70, 9), sampling=GREEDY)
    start(small, long, "long")
    small.driver.finish("long")
    error = small.driver.finished["long"].error
    assert isinstance(error, OmniError)
    start(small, SCENES["short"], "short")
    small.driver.finish("short")
    small.assert_nothing_held()
