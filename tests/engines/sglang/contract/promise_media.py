"""Embedding rows in the place of tokens, on the Qwen3-Omni thinker: the rows that the model itself would have looked up
give what their tokens give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.engines.sglang.contract.conftest import Bench
from voice_omni.engines.interface import Feed, Piece, Row, Rows
from voice_omni.proto.errors import OmniError

IDS = list(range(10, 40))
"""Those that ``greedy.json`` of the checkpoint continues, in transformers' thinker."""
HOLDER = 490


@pytest.fixture(scope="module")
def shared(make: Callable[..., Bench], omni: Path) -> Bench:
    return make(omni, architecture="Qwen3OmniThinker")


@pytest.fixture(scope="module")
def table(omni: Path) -> Rows:
    rows: Rows = load_file(omni / "model.safetensors")["thinker.model.embed_tokens.weight"].float().numpy()
    return rows


@pytest.fixture(scope="module")
def plain(shared: Bench) -> list[int]:
    """What the model says to the tokens."""
    return shared.driver.run(Row("plain", IDS, 8, frozenset(), session="plain"))["plain"]


def given(table: Rows, first: int, last: int) -> Piece:
    return Piece([HOLDER] * (last - first), table[IDS[first:last]])


def say(bench: Bench, name: str, *pieces: Piece, session: str | None = None, settle: bool = True) -> list[int]:
    bench.engine.add(Row(name, [], 8, frozenset(), open=True, session=session or name))
    for piece in pieces:
        bench.engine.feed(name, Feed([piece]))
        if settle:
            bench.settle()
    bench.engine.feed(name, Feed(closed=True))
    bench.driver.finish(name)
    return bench.driver.tokens[name]


def test_greedy_tokens_are_those_of_the_models_authors(omni: Path, plain: list[int]) -> None:
    assert plain == json.loads((omni / "greedy.json").read_text())[: len(plain)]


def test_rows_stand_for_their_tokens_and_each_piece_is_computed_once(
    bench: Bench, table: Rows, plain: list[int]
) -> None:
    pieces = Piece(IDS[:4]), given(table, 4, 12), given(table, 12, 25), Piece(IDS[25:])
    assert say(bench, "pieces", *pieces) == plain
    assert bench.cached() == [0, 4, 12, 25, 29]
    assert say(bench, "at-once", *pieces, settle=False) == plain


def test_rows_may_stand_at_some_places_of_a_piece(bench: Bench, table: Rows, plain: list[int]) -> None:
    tokens, at = IDS.copy(), np.array([2, 3, 4, 9, 20, 21])
    for place in at:
        tokens[place] = HOLDER
    assert say(bench, "places", Piece(tokens, table[[IDS[place] for place in at]], at)) == plain


def test_rows_are_found_in_the_cache_in_whichever_pieces_they_come(bench: Bench, table: Rows, plain: list[int]) -> None:
    head, tail = Piece(IDS[:4]), Piece(IDS[25:])
    pieces = given(table, 4, 12), given(table, 12, 25)
    assert say(bench, "in-two", head, *pieces, tail, session="cut") == plain
    bench.cached()
    assert say(bench, "in-one", head, given(table, 4, 25), tail, session="cut", settle=False) == plain
    assert bench.cached()[-1] == 29


def test_other_rows_are_not_taken_for_those_in_the_cache(bench: Bench, table: Rows) -> None:
    head = Piece(IDS[:4])
    first = say(bench, "one", head, given(table, 4, 25), session="same")
    bench.cached()
    other = Piece([HOLDER] * 21, -table[IDS[4:25]])
    assert say(bench, "two", head, other, session="same") != first
    assert bench.cached() == [3, 4, 24]
    assert say(bench, "three", head, given(table, 4, 25), session="same") == first
    assert bench.cached() == [3, 24, 24]


def test_rows_without_deepstack_are_rows_with_a_deepstack_of_nothing(
    bench: Bench, table: Rows, plain: list[int]
) -> None:
    rows = table[IDS[4:25]]
    nothing = np.zeros((3, *rows.shape), np.float32)
    ends = Piece(IDS[:4]), Piece(IDS[25:])
    assert say(bench, "flat", ends[0], Piece([HOLDER] * 21, rows, None, nothing), ends[1]) == plain
    assert say(bench, "deep", ends[0], Piece([HOLDER] * 21, rows, None, nothing + 3), ends[1]) != plain


def test_rotary_positions_are_relative_and_go_on_where_they_ended(bench: Bench, table: Rows, plain: list[int]) -> None:
    moved = np.broadcast_to(np.arange(7, 19, dtype=np.float32), (3, 12))
    rows = Piece([*IDS[:4], *[HOLDER] * 8], table[IDS[4:12]], np.arange(4, 12), positions=moved)
    assert say(bench, "moved", rows, Piece(IDS[12:])) == plain
    apart = Piece(rows.tokens, rows.rows, rows.at, positions=moved * 3)
    rest = np.broadcast_to(np.arange(60, 60 + 17 * 18, 17, dtype=np.float32), (3, 18))
    assert say(bench, "apart", apart, Piece(IDS[12:], positions=rest)) != plain


def test_a_paused_row_with_rows_goes_on_where_it_was(bench: Bench, table: Rows, plain: list[int]) -> None:
    bench.engine.add(Row("held", IDS[:4], 8, frozenset(), open=True, session="held"))
    rest = Feed([given(table, 4, 25), Piece(IDS[25:])], closed=True)
    with bench.driver.held("held", lambda: bench.engine.feed("held", rest)):
        bench.engine.pause("held")
    bench.settle()
    assert 0 < len(bench.driver.tokens["held"]) < len(plain)
    bench.engine.resume("held")
    bench.driver.finish("held")
    assert bench.driver.tokens["held"] == plain


@pytest.mark.parametrize(
    "piece",
    [
        lambda table: Piece([1, 2], table[:1]),
        lambda table: Piece([1, 2], table[:2, 1:]),
        lambda table: Piece([1, 2], table[:1], np.array([2])),
        lambda table: Piece([1, 2], at=np.array([1])),
        lambda table: Piece([1, 2], positions=np.zeros((3, 1), np.float32)),
        lambda table: Piece([1], positions=np.full((3, 1), 0.5, np.float32)),
        lambda table: Piece([1], table[:1], None, np.zeros((2, 1, table.shape[1]), np.float32)),
    ],
)
def test_a_piece_whose_parts_do_not_fit_is_refused(
    bench: Bench, table: Rows, piece: Callable[[Rows], Piece], request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    bench.engine.add(Row(name, [], 8, frozenset(), open=True))
    with pytest.raises(OmniError) as raised:
        bench.engine.feed(name, Feed([piece(table)]))
    assert raised.value.code == "invalid_value"
    bench.engine.remove(name)
    bench.driver.finish(name)
