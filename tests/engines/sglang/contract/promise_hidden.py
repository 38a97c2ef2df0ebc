"""A layer's rows of a prompt come out in order, once, whatever became of their computation on the way."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.engines.sglang.contract.conftest import Bench
from voice_omni.engines.interface import Feed, Piece, Row, Rows
from voice_omni.proto.errors import OmniError

LAYER, HOLDER, CHUNK = 2, 490, 16
THINKER: dict[str, Any] = {"architecture": "Qwen3OmniThinker", "hidden_layer": LAYER}
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def shared(make: Callable[..., Bench], omni: Path) -> Bench:
    return make(omni, prefill_chunk=CHUNK, **THINKER)


@pytest.fixture(scope="module")
def table(omni: Path) -> Rows:
    rows: Rows = load_file(omni / "model.safetensors")["thinker.model.embed_tokens.weight"].float().numpy()
    return rows


def prompt(table: Rows, seed: int, *lengths: int, deep: bool = False) -> list[Piece]:
    """Pieces of these lengths in which tokens and rows take turns, each holding some of both."""
    dice = np.random.default_rng(seed)
    pieces = []
    for length in lengths:
        ids = dice.integers(10, 480, length)
        at = np.flatnonzero(dice.random(length) < 0.6)
        tokens = ids.copy()
        tokens[at] = HOLDER
        deepstack = dice.normal(size=(3, len(at), table.shape[1])).astype(np.float32) if deep else None
        rows = (table[ids[at]], at, deepstack) if len(at) else ()
        pieces.append(Piece(tokens.tolist(), *rows))
    return pieces


def rows_of(pieces: list[Piece]) -> int:
    return sum(0 if piece.rows is None else len(piece.rows) for piece in pieces)


def opened(name: str, *, tokens: int = 8, stop: frozenset[int] = frozenset(), session: str | None = None) -> Row:
    return Row(name, [], tokens, stop, open=True, session=session or name)


def at_once(bench: Bench, name: str, pieces: list[Piece], **how: Any) -> tuple[list[int], Rows]:
    bench.engine.add(opened(name, **how))
    bench.engine.feed(name, Feed(pieces, closed=True))
    bench.driver.finish(name)
    return bench.driver.tokens[name], np.stack(bench.driver.hidden[name])


def assert_same(bench: Bench, name: str, expected: tuple[list[int], Rows]) -> None:
    assert bench.driver.tokens[name] == expected[0]
    assert len(bench.driver.hidden[name]) == len(expected[1])
    np.testing.assert_allclose(bench.driver.hidden[name], expected[1], rtol=0, atol=TOLERANCE)


def test_of_the_checkpoint_only_the_decoder_is_held(bench: Bench) -> None:
    model = bench.scheduler.tp_worker.model_runner.model
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"model", "lm_head"}


def test_there_is_a_row_for_each_place_of_the_pool(bench: Bench) -> None:
    runner = bench.scheduler.tp_worker.model_runner
    assert len(runner.model.hidden_rows) == len(runner.token_to_kv_pool.k_buffer[0])


def test_rows_that_wait_come_together_and_those_of_a_piece_alone(bench: Bench, table: Rows) -> None:
    pieces = prompt(table, 1, 9, 20, 3, 31)
    expected = at_once(bench, "together", pieces)
    assert len(expected[1]) == rows_of(pieces)
    bench.engine.add(opened("apart"))
    for count, piece in enumerate(pieces, 1):
        bench.engine.feed("apart", Feed([piece]))
        bench.settle()
        assert len(bench.driver.hidden["apart"]) == rows_of(pieces[:count])
    bench.engine.feed("apart", Feed(closed=True))
    bench.driver.finish("apart")
    assert_same(bench, "apart", expected)


def test_a_paused_row_reports_none_twice(bench: Bench, table: Rows) -> None:
    pieces = prompt(table, 2, 40)
    expected = at_once(bench, "calm", pieces)

    def begin() -> None:
        bench.engine.add(opened("held"))
        bench.engine.feed("held", Feed(pieces, closed=True))

    with bench.driver.held("held", begin):
        for _ in range(3):
            bench.engine.pause("held")
            bench.engine.resume("held")
    bench.driver.finish("held")
    assert_same(bench, "held", expected)


def test_sessions_have_their_own(bench: Bench, table: Rows) -> None:
    """The same tokens behind other rows are other rows inside."""
    head, other, tail = prompt(table, 3, 12), prompt(table, 4, 12), prompt(table, 5, 12)
    first = at_once(bench, "first", [*head, *tail], session="one")
    second = at_once(bench, "second", [*other, *tail], session="two")
    assert not np.allclose(first[1][-rows_of(tail) :], second[1][-rows_of(tail) :], atol=0.1)
    for name, session, pieces, expected in (
        ("third", "one", [*head, *tail], first),
        ("fourth", "two", [*other, *tail], second),
    ):
        bench.cached()
        at_once(bench, name, pieces, session=session)
        assert max(bench.cached()) >= 23
        assert_same(bench, name, expected)


@pytest.mark.parametrize("settled", [False, True])
def test_what_is_taken_back_is_as_if_it_had_never_been_fed(bench: Bench, table: Rows, settled: bool) -> None:
    right, wrong = prompt(table, 6, 9, 20, 15), prompt(table, 7, 25)
    expected = at_once(bench, f"right {settled}", right)
    name = f"again {settled}"
    bench.engine.add(opened(name))
    bench.engine.feed(name, Feed([right[0], *wrong]))
    if settled:
        bench.settle()
        del bench.driver.hidden[name][rows_of(right[:1]) :]
    bench.engine.feed(name, Feed(right[1:2], kept=9))
    bench.engine.feed(name, Feed([*wrong, *wrong], kept=29))
    bench.engine.feed(name, Feed(right[2:], kept=29, closed=True))
    bench.driver.finish(name)
    assert_same(bench, name, expected)


def test_only_borders_between_pieces_can_be_gone_back_to(bench: Bench, table: Rows) -> None:
    bench.engine.add(opened("borders"))
    bench.engine.feed("borders", Feed(prompt(table, 8, 9, 6)))
    for kept in (3, 16):
        with pytest.raises(OmniError, match="border"):
            bench.engine.feed("borders", Feed(kept=kept))
    bench.engine.feed("borders", Feed(kept=0))
    bench.engine.feed("borders", Feed(prompt(table, 8, 9), closed=True))
    with pytest.raises(OmniError, match="closed"):
        bench.engine.feed("borders", Feed(kept=9))
    bench.driver.finish("borders")
    assert_same(bench, "borders", at_once(bench, "without", prompt(table, 8, 9)))


def test_deepstack_rows_reach_what_a_prefill_graph_holds(bench: Bench, table: Rows) -> None:
    """Played without a graph: the decoder's layers run without the deepstack rows that it is called with, on embeddings
    that lie in a place of their own."""
    pieces = [*prompt(table, 9, 7), *prompt(table, 10, 13, deep=True), *prompt(table, 11, 5)]
    expected = at_once(bench, "eager", pieces)
    flat = [Piece(piece.tokens, piece.rows, piece.at) for piece in pieces]
    assert not np.allclose(at_once(bench, "flat", flat)[1], expected[1], atol=0.1)
    with _graphs_played(bench.scheduler.tp_worker.model_runner.model):
        at_once(bench, "graph", pieces)
        assert_same(bench, "graph", expected)
        at_once(bench, "flat graph", flat)
    assert_same(bench, "flat graph", (bench.driver.tokens["flat"], np.stack(bench.driver.hidden["flat"])))


@contextmanager
def _graphs_played(model: Any) -> Iterator[None]:
    import torch

    model.feed_prefill_graphs(2 * CHUNK)
    forward, layers = model.forward, model.model.forward

    def run(ids: Any, positions: Any, batch: Any, **rest: Any) -> Any:
        if batch.forward_mode.is_extend():
            batch.input_embeds = torch.zeros((len(ids), model.config.hidden_size), device=ids.device)
        return forward(ids, positions, batch, **rest)

    def replay(*args: Any, input_deepstack_embeds: Any = None, **rest: Any) -> Any:
        return layers(*args, **rest)

    model.forward, model.model.forward = run, replay
    try:
        yield
    finally:
        del model.forward, model.model.forward


def test_nothing_is_left_after_a_thousand_random_calls(bench: Bench, table: Rows) -> None:
    dice = random.Random(1)
    prompts = {n: prompt(table, 20 + n, *[dice.randint(1, 25) for _ in range(dice.randint(1, 4))]) for n in range(8)}
    wrong = prompt(table, 40, 11)
    expected = {n: at_once(bench, f"known-{n}", pieces) for n, pieces in prompts.items()}
    living: dict[int, str] = {}
    fed: dict[str, int] = {}
    astray: set[str] = set()

    def right(n: int, name: str, count: int) -> None:
        """Feed so many of the right pieces, in the place of a wrong one that has been fed."""
        pieces = prompts[n]
        kept = sum(map(len, pieces[: fed[name]])) if name in astray else None
        if name in astray:
            astray.remove(name)
            del bench.driver.hidden.setdefault(name, [])[rows_of(pieces[: fed[name]]) :]
        start, fed[name] = fed[name], fed[name] + count
        bench.engine.feed(name, Feed(pieces[start : fed[name]], fed[name] == len(pieces), kept))

    for step in range(1000):
        n = dice.randrange(len(prompts))
        name = living.get(n)
        if name is None or name in bench.driver.finished:
            living[n] = name = f"{n}-{step}"
            fed[name] = 0
            bench.engine.add(opened(name, session=f"random-{n}"))
            continue
        is_open = fed[name] < len(prompts[n])
        match dice.choice(["feed", "feed", "stray", "pause", "resume", "remove", "turn", "turn", "turn", "turn"]):
            case "feed" if is_open:
                right(n, name, dice.randint(1, len(prompts[n]) - fed[name]))
            case "stray" if is_open and name not in astray:
                bench.engine.feed(name, Feed(wrong))
                astray.add(name)
            case "turn" if bench.engine.stats()["requests"]:
                bench.driver.turn()
            case "pause" | "resume" as command:
                getattr(bench.engine, command)(name)
            case "remove" if dice.random() < 0.2:
                bench.engine.remove(name)
    for n, name in living.items():
        if name not in bench.driver.finished:
            bench.engine.resume(name)
            if fed[name] < len(prompts[n]):
                right(n, name, len(prompts[n]) - fed[name])
    bench.driver.finish(*living.values())
    whole = 0
    for name, output in bench.driver.finished.items():
        if name not in fed:
            continue
        n = int(name.split("-")[0])
        if output.finish == "removed":
            said = bench.driver.tokens[name]
            assert said == expected[n][0][: len(said)], name
        else:
            assert_same(bench, name, expected[n])
            whole += 1
    assert whole > 20


def test_rows_of_requests_that_outgrow_the_pool_come_once(
    make: Callable[..., Bench], omni: Path, table: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    # The requests together need half as much again as there is, and are let in all the same: they may end early.
    bench = make(omni, kv_tokens=200, max_rows=4, server_args={"schedule_conservativeness": 0.1}, **THINKER)
    prompts = {f"grow-{n}": prompt(table, 60 + n, 5, 10) for n in range(4)}
    expected = {name: at_once(bench, f"{name} alone", pieces, tokens=60) for name, pieces in prompts.items()}
    unsaid = frozenset(range(len(table))).difference(*(tokens for tokens, _ in expected.values()))
    first, second, *others = prompts

    def begin(*names: str) -> None:
        for name in names:
            bench.engine.add(opened(name, tokens=60, stop=unsaid))
            bench.engine.feed(name, Feed(prompts[name], closed=True))

    with caplog.at_level(logging.WARNING):
        # Of those that come together, SGLang admits what fits to its end.
        with bench.driver.held(second, lambda: begin(first, second)):
            begin(*others)
        bench.driver.finish(*prompts)
    assert any("retract" in record.message.lower() for record in caplog.records)
    for name in prompts:
        assert_same(bench, name, expected[name])
