"""What the talker's stage takes in, for several requests at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import tiny_qwen3_omni
from voice_omni.model_runner.interface import Chunk, RowOutcome, Work
from voice_omni.models.qwen3_omni.backbones import load_talker_tables
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.options import TalkerOptions
from voice_omni.models.qwen3_omni.talker_prompt import TalkerPrompt
from voice_omni.models.qwen3_omni.talker_runner import Speech, TalkerRunner
from voice_omni.models.qwen3_omni.wire import USER, UserPart
from voice_omni.proto.payload import OmniRequest, StagePayload


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> TalkerRunner:
    checkpoint = Checkpoint(tiny_qwen3_omni.build(tmp_path_factory.mktemp("tiny") / "qwen3-omni"))
    tables = load_talker_tables(checkpoint)
    return TalkerRunner(tables.talker, TalkerOptions(), TalkerPrompt(tables), checkpoint.config.frame_s)


def part(tokens: list[int], at: list[int], rows: int | None = None, width: int = 64) -> UserPart:
    """With as many inner rows as there are places for them, unless ``rows`` says otherwise."""
    hidden = np.ones((len(at) if rows is None else rows, width), np.float32)
    return UserPart(tokens, np.zeros((3, len(tokens)), np.float32), np.array(at, np.int64), hidden)


def work(runner: TalkerRunner, name: str, *parts: UserPart | dict[str, Any]) -> Work[Speech]:
    state, _ = runner.open(StagePayload(OmniRequest(request_id=name, route="test")))
    data = [each.data() if isinstance(each, UserPart) else each for each in parts]
    return Work(name, state, [Chunk("thinker", {USER: each}) for each in data], False)


def fed(outcome: RowOutcome) -> list[list[int]]:
    assert outcome.error is None
    assert outcome.feed is not None
    return [list(piece.tokens) for piece in outcome.feed.pieces]


@pytest.mark.parametrize(
    "bad",
    [
        part([5, 1_000_000], []),
        part([5, -1], []),
        part([5, 6], [0], rows=2),
        part([5, 6], [0], width=63),
        part([5, 6], [2]),
        {"tokens": [5]},
    ],
    ids=["no such token", "a negative one", "a row too many", "another width", "a place too far", "half of it"],
)
def test_what_cannot_be_computed_fails_its_request_alone(runner: TalkerRunner, bad: UserPart | dict[str, Any]) -> None:
    good = part([5, 6, 7], [1])
    first, failed, last = runner.push(
        [work(runner, "first", good), work(runner, "bad", good, bad), work(runner, "last", part([8], []), good)]
    )
    assert failed.error is not None
    assert fed(first) == [[5, 6, 7]]
    assert fed(last) == [[8], [5, 6, 7]]
    assert last.feed is not None
    (alone,) = runner.push([work(runner, "alone", part([8], []), good)])
    assert alone.feed is not None
    for together, by_itself in zip(last.feed.pieces, alone.feed.pieces, strict=True):
        assert together.rows is not None
        assert by_itself.rows is not None
        assert np.allclose(together.rows, by_itself.rows, atol=1e-5)


def test_what_stands_for_a_medium_need_not_be_a_token_of_the_thinkers(runner: TalkerRunner) -> None:
    outcomes = runner.push([work(runner, name, part([5, token], [1])) for name, token in (("a", 1_000_000), ("b", 6))])
    rows = [outcome.feed.pieces[0].rows for outcome in outcomes if outcome.feed is not None]
    assert rows[0] is not None
    assert rows[1] is not None
    assert np.array_equal(rows[0], rows[1])
