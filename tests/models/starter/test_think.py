"""Messages to a spoken answer, with the real model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.starter.thinking import Thinker, assistant, payload, user
from voice_omni.engines.interface import RowOutput
from voice_omni.models.starter.options import ThinkerOptions
from voice_omni.models.starter.think import build
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError


@pytest.fixture(scope="module")
def thinker() -> Iterator[Thinker]:
    runner, engine = build(StageContext("thinker", ThinkerOptions(), "cpu", 2))
    yield Thinker(runner, engine)
    engine.stop()


def test_it_knows_the_capital_of_france(thinker: Thinker) -> None:
    assert "Paris" in thinker.answer(user("What is the capital of France?"))


def test_it_answers_what_was_heard_after_what_was_said_before(thinker: Thinker) -> None:
    before = [user("What is the capital of France?"), assistant("The capital of France is Paris.")]
    _, result = thinker.think(payload(before, heard="And of Germany?"))
    assert "Berlin" in result["text"]


def test_the_pieces_are_the_answer(thinker: Thinker) -> None:
    pieces, result = thinker.think(payload([user("Why is the sea salty?")]))
    assert len(pieces) > 5
    assert "".join(pieces) == result["text"]
    assert result["finish_reason"] == "stop"
    assert result["usage"]["output_tokens"] >= len(pieces)


def test_a_long_answer_ends_with_a_sentence(thinker: Thinker) -> None:
    _, result = thinker.think(payload([user("Tell me a short story about a brave cat.")]))
    assert result["text"].endswith((".", "!", "?"))
    assert ThinkerOptions().sentence_tokens < result["usage"]["output_tokens"] < ThinkerOptions().max_new_tokens


def test_an_answer_is_as_long_as_the_request_allows(thinker: Thinker) -> None:
    _, result = thinker.think(payload([user("Why is the sea salty?")], max_output_tokens=5))
    assert result["usage"]["output_tokens"] == 5
    assert result["finish_reason"] == "length"


def test_the_same_question_gets_the_same_answer_however_warm_the_cache_is(thinker: Thinker) -> None:
    question = user("Can you tell me a fun fact about the ocean?")
    assert len({thinker.answer(question) for _ in range(3)}) == 1


def test_a_requests_own_instructions_replace_the_system_prompt(thinker: Thinker) -> None:
    _, own = thinker.runner.open(payload([user("Hello")], instructions="Speak like a pirate."))
    _, usual = thinker.runner.open(payload([user("Hello")]))
    assert len(own.prompt) < len(usual.prompt)
    assert own.prompt[own.prefix_len :] == usual.prompt[usual.prefix_len :]


def test_a_session_begins_with_what_the_engine_was_told_to_expect() -> None:
    runner, engine = build(StageContext("thinker", ThinkerOptions(), "cpu", 1))
    engine.stop()
    expected: list[list[int]] = []
    runner._expect = expected.append
    state, row = runner.open(payload([user("Hello")]))
    runner.advance(state, RowOutput("r", [row.prompt[-3]]))
    outcome = runner.advance(state, RowOutput("r", [], "stop"))
    assert outcome.result is not None
    _, following = runner.open(payload([user("Hello"), assistant(outcome.result["text"]), user("Bye")]))
    assert expected == [following.prompt[: following.prefix_len]]


def test_nothing_heard_is_not_answered(thinker: Thinker) -> None:
    with pytest.raises(OmniError) as raised:
        thinker.runner.open(payload([user("Hello")], heard=" "))
    assert raised.value.code == "no_speech"


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 3},
        {"temperature": "hot"},
        {"max_output_tokens": 0},
        {"instructions": 7},
        {"instructions": "word " * 9000},
    ],
)
def test_wrong_parameters_are_named(thinker: Thinker, wrong: dict[str, object]) -> None:
    with pytest.raises(OmniError) as raised:
        thinker.runner.open(payload([user("Hello")], **wrong))
    assert raised.value.code == "invalid_value"
    assert next(iter(wrong)) in f"{raised.value} {raised.value.info.param}"


def test_without_a_message_it_speaks_first(thinker: Thinker) -> None:
    assert thinker.answer(instructions="Greet the caller.")
