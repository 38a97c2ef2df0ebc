"""Rows that take in more while they run, on a plain language model: any embedding row can be given as a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache, LlamaForCausalLM

from tests.engines.driver import Driver, row
from tests.engines.test_engines import prompt
from voice_omni.engines.interface import Feed, Piece, Row, Rows, Sampling, StreamedEngine
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.engines.torch_model import Chance, Computed, Inputs, LanguageModel, Written
from voice_omni.proto.errors import OmniError


class Framing(LanguageModel):
    """With a frame head that makes three codes of each token, and with inner rows that are the inputs themselves."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__(model)
        self.computed = 0

    def forward(self, inputs: Inputs, cache: DynamicCache) -> Computed:
        self.computed += len(inputs)
        return Computed(super().forward(inputs, cache).last, inputs.rows[inputs.at])

    def write(self, token: int, last: torch.Tensor, sampling: Sampling, chance: Chance) -> Written:
        residual = [int(1000 * chance(book)) for book in (1, 2)]
        return Written(super().write(token, last, sampling, chance).row, [token, *residual])


@pytest.fixture
def table(llama: LlamaForCausalLM) -> Rows:
    rows: Rows = llama.get_input_embeddings().weight.detach().numpy()  # type: ignore[operator, union-attr]
    return rows


@pytest.fixture
def driver(llama: LlamaForCausalLM) -> Driver:
    return Driver(TorchEngine(LanguageModel(llama)))


@pytest.fixture
def framing(llama: LlamaForCausalLM) -> Driver:
    return Driver(TorchEngine(Framing(llama), kept_positions=200))


def opened(name: str, **fields: Any) -> Row:
    return Row(name, [], fields.pop("tokens", 8), frozenset(), open=True, **fields)


def feed(driver: Driver, name: str, *pieces: Piece, **rest: Any) -> None:
    assert isinstance(driver.engine, StreamedEngine)
    driver.engine.feed(name, Feed(pieces, **rest))


def test_pieces_of_ids_and_rows_are_one_prompt(driver: Driver, table: Rows) -> None:
    ids = prompt(1)
    plain = driver.run(row("plain", ids, tokens=8))["plain"]
    driver.engine.add(opened("r"))
    feed(driver, "r", Piece(ids[:5]), Piece([0] * 4, table[ids[5:9]]))
    driver.turn()
    assert not driver.engine.busy
    assert driver.tokens["r"] == []
    at = np.array([0, 3])
    feed(driver, "r", Piece([0, *ids[10:12], 0], table[[ids[9], ids[12]]], at), Piece(ids[13:]), Piece([]))
    feed(driver, "r", closed=True)
    driver.finish("r")
    assert driver.tokens["r"] == plain


def test_a_prompt_may_begin_with_the_rows_own_ids(driver: Driver) -> None:
    plain = driver.run(row("plain", prompt(1), tokens=8))["plain"]
    driver.engine.add(Row("r", prompt(1)[:7], 8, frozenset(), open=True))
    driver.turn()
    feed(driver, "r", Piece(prompt(1)[7:]), closed=True)
    driver.finish("r")
    assert driver.tokens["r"] == plain


def test_positions_are_counted_on_from_those_that_are_named(driver: Driver) -> None:
    """Rotary positions are relative: the same tokens, all moved, are the same prompt."""
    plain = driver.run(row("plain", prompt(1), tokens=8))["plain"]
    driver.engine.add(opened("r"))
    moved = np.broadcast_to(np.arange(7, 17, dtype=np.float32), (3, 10))
    feed(driver, "r", Piece(prompt(1)[:10], positions=moved), Piece(prompt(1)[10:]), closed=True)
    driver.finish("r")
    assert driver.tokens["r"] == plain


def test_the_models_inner_rows_are_reported_piece_by_piece(framing: Driver, table: Rows) -> None:
    framing.engine.add(opened("r"))
    feed(framing, "r", Piece([1, 0, 0], table[[7, 8]], np.array([1, 2])), Piece([3]), Piece([0], table[[9]]))
    [output] = framing.engine.step()
    assert output.hidden is not None
    assert np.array_equal(output.hidden, table[[7, 8, 9]])
    feed(framing, "r", Piece([4]), closed=True)
    [output] = framing.engine.step()
    assert output.hidden is None
    assert output.tokens


def test_a_frame_is_reported_with_its_first_code_and_the_last_token_gets_none(framing: Driver) -> None:
    framing.engine.add(row("r", prompt(1), tokens=4))
    outputs = [output for _ in range(4) for output in framing.engine.step()]
    assert [len(output.frames) for output in outputs] == [1, 1, 1, 0]
    tokens = [token for output in outputs for token in output.tokens]
    assert [frame[0] for output in outputs for frame in output.frames] == tokens[:-1]
    assert outputs[3].finish == "length"


def test_a_conditioned_row_waits_alone_for_each_condition_and_is_padded_after_the_last(
    driver: Driver, table: Rows
) -> None:
    nothing = np.zeros_like(table[0])
    plain = driver.run(row("plain", prompt(1), tokens=6))["plain"]
    driver.engine.add(Row("r", prompt(1), 6, frozenset(), padding=nothing))
    driver.run(row("other", prompt(2), tokens=6))
    assert driver.tokens["r"] == plain[:1], "the first token needs no condition"
    feed(driver, "r", conditions=np.stack([nothing, nothing]))
    driver.until("r", 3)
    assert not driver.engine.busy
    feed(driver, "r", ended=True)
    driver.finish("r")
    assert driver.tokens["r"] == plain


def test_conditions_and_padding_are_added_to_the_inputs(driver: Driver, llama: LlamaForCausalLM, table: Rows) -> None:
    conditions, padding = 2 * table[20:22], 2 * table[30]
    driver.engine.add(Row("r", prompt(1), 5, frozenset(), padding=padding))
    feed(driver, "r", conditions=conditions, ended=True)
    driver.finish("r")
    inputs = table[prompt(1)]
    expected: list[int] = []
    for added in (*conditions, padding, padding, padding):
        logits = llama(inputs_embeds=torch.tensor(inputs[None])).logits[0, -1]
        expected.append(int(logits.argmax()))
        inputs = np.concatenate((inputs, table[expected[-1:]] + added))
    assert driver.tokens["r"] == expected


def test_a_paused_row_takes_in_but_does_not_run(driver: Driver) -> None:
    driver.engine.add(opened("r"))
    driver.engine.pause("r")
    feed(driver, "r", Piece(prompt(1)), closed=True)
    assert not driver.engine.busy
    driver.engine.resume("r")
    driver.finish("r")
    assert driver.tokens["r"] == driver.run(row("plain", prompt(1), tokens=8))["plain"]


def test_a_waiting_row_can_be_removed(driver: Driver) -> None:
    driver.engine.add(opened("r"))
    driver.engine.remove("r")
    driver.finish("r")
    assert driver.reason("r") == "removed"
    feed(driver, "r", Piece([1]), closed=True)
    assert not driver.engine.busy


@pytest.mark.parametrize(
    "wrong",
    [
        lambda feed: feed(Feed([Piece([1])])),
        lambda feed: feed(Feed(closed=True)),
        lambda feed: feed(Feed(conditions=np.zeros((1, 4), np.float32))),
        lambda feed: feed(Feed(ended=True)),
    ],
)
def test_what_a_row_cannot_take_is_refused(driver: Driver, wrong: Callable[[Callable[[Feed], None]], None]) -> None:
    driver.engine.add(row("r", prompt(1)))
    assert isinstance(driver.engine, StreamedEngine)
    engine = driver.engine
    with pytest.raises(OmniError) as raised:
        wrong(lambda feed: engine.feed("r", feed))
    assert raised.value.code == "invalid_value"


@pytest.mark.parametrize(
    "piece",
    [
        lambda width: Piece([1, 2], np.zeros((1, width), np.float32)),
        lambda width: Piece([1, 2], np.zeros((2, width + 1), np.float32)),
        lambda width: Piece([1, 2], np.zeros((1, width), np.float32), np.array([2])),
        lambda width: Piece([1, 2], at=np.array([1])),
        lambda width: Piece([1, 2], positions=np.zeros((3, 1), np.float32)),
        lambda width: Piece([1], np.zeros((1, width), np.float32), None, np.zeros((2, 2, width), np.float32)),
    ],
)
def test_a_piece_whose_parts_do_not_fit_fails_its_row_alone(
    driver: Driver, table: Rows, piece: Callable[[int], Piece]
) -> None:
    driver.engine.add(opened("bad"))
    driver.engine.add(row("good", prompt(1), tokens=3))
    feed(driver, "bad", piece(table.shape[1]))
    outputs = {output.row_id: output for output in driver.engine.step()}
    assert isinstance(error := outputs["bad"].error, OmniError)
    assert error.code == "invalid_value"
    assert outputs["good"].tokens
    assert driver.engine.stats() == {"rows": 1}


def test_a_row_of_a_session_computes_only_what_the_last_one_did_not(framing: Driver, table: Rows) -> None:
    model: Framing = framing.engine._model  # type: ignore[attr-defined]
    pictured = Piece([0, 5, 0], table[[7, 8]], np.array([0, 2]))

    def ask(name: str, session: str | None, *pieces: Piece) -> tuple[int, list[int], Rows | None]:
        """Positions computed before the first token, the tokens, and the inner rows."""
        before = model.computed
        framing.engine.add(opened(name, session=session, tokens=3))
        feed(framing, name, *pieces, closed=True)
        [output] = framing.engine.step()
        computed = model.computed - before
        framing.tokens[name] = list(output.tokens)
        framing.finish(name)
        return computed, framing.tokens[name], output.hidden

    computed, tokens, hidden = ask("first", "s", Piece(prompt(1)), pictured)
    assert computed == 23
    again = ask("again", "s", Piece(prompt(1)[:9]), Piece(prompt(1)[9:]), pictured)
    assert again[:2] == (1, tokens)
    assert np.array_equal(again[2], hidden)  # type: ignore[arg-type]
    assert ask("longer", "s", Piece(prompt(1)), pictured, Piece([9, 9]))[0] == 2
    other = Piece([0, 5, 0], table[[7, 9]], np.array([0, 2]))
    assert ask("another picture", "s", Piece(prompt(1)), other)[0] == 1
    assert ask("another session", "t", Piece(prompt(1)), pictured)[0] == 23
    assert ask("no session", None, Piece(prompt(1)), pictured)[1] == tokens


def test_the_least_recent_sessions_are_forgotten(framing: Driver) -> None:
    model: Framing = framing.engine._model  # type: ignore[attr-defined]
    for session in "abcd":
        framing.run(Row(session, prompt(ord(session), 60), 2, frozenset(), session=session))
    before = model.computed
    framing.run(Row("d again", prompt(ord("d"), 60), 2, frozenset(), session="d"))
    assert model.computed - before == 2
    before = model.computed
    framing.run(Row("a again", prompt(ord("a"), 60), 2, frozenset(), session="a"))
    assert model.computed - before == 61
    framing.engine.stop()
    assert framing.engine.stats() == {"rows": 0}


def test_what_a_language_model_has_said_counts_as_read_by_the_next_turn(llama: LlamaForCausalLM) -> None:
    model = Framing(llama)
    model.write = LanguageModel(llama).write  # type: ignore[method-assign]
    driver = Driver(TorchEngine(model, kept_positions=200))
    said = driver.run(Row("first", prompt(1), 6, frozenset(), session="s"))["first"]
    before = model.computed
    driver.run(Row("second", [*prompt(1), *said, 7, 8], 1, frozenset(), session="s"))
    # The last token said has not been through the model.
    assert model.computed - before == 3


# -- taking back -------------------------------------------------------------------------------------------------------


def test_what_is_taken_back_is_as_if_it_had_never_been_fed(framing: Driver) -> None:
    ids = prompt(1)
    plain = framing.run(row("plain", ids, tokens=8))["plain"]
    framing.engine.add(opened("r"))
    feed(framing, "r", Piece(ids[:5]), Piece([7, 8, 9]))
    framing.turn()
    feed(framing, "r", Piece(ids[5:9]), kept=5)
    framing.turn()
    feed(framing, "r", Piece(ids[9:]), closed=True)
    framing.finish("r")
    assert framing.tokens["r"] == plain


def test_pieces_that_wait_are_taken_back_too(framing: Driver) -> None:
    ids = prompt(1)
    plain = framing.run(row("plain", ids, tokens=8))["plain"]
    framing.engine.add(opened("r"))
    feed(framing, "r", Piece(ids[:5]), Piece([7, 8, 9]), Piece([1, 2]))
    feed(framing, "r", Piece(ids[5:]), kept=5, closed=True)
    framing.finish("r")
    assert framing.tokens["r"] == plain


def test_what_comes_again_as_it_was_is_not_computed_again(llama: LlamaForCausalLM) -> None:
    ids, model = prompt(1), Framing(llama)
    driver = Driver(TorchEngine(model))
    driver.engine.add(opened("r"))
    feed(driver, "r", Piece(ids[:4]), Piece(ids[4:10]))
    driver.turn()
    feed(driver, "r", Piece(ids[4:8]), kept=4)
    driver.turn()
    assert model.computed == 10


def test_only_borders_between_pieces_can_be_gone_back_to(framing: Driver) -> None:
    framing.engine.add(opened("r"))
    feed(framing, "r", Piece(prompt(1)[:5]))
    with pytest.raises(OmniError, match="border"):
        feed(framing, "r", kept=3)
    framing.turn()
    with pytest.raises(OmniError, match="border"):
        feed(framing, "r", kept=3)
    feed(framing, "r", Piece(prompt(1)[5:]), closed=True)
    with pytest.raises(OmniError, match="closed"):
        feed(framing, "r", kept=5)
    framing.finish("r")
