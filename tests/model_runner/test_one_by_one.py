"""Requests of one batch that have nothing to do with each other."""

from __future__ import annotations

import pytest

from voice_omni.engines.interface import Feed
from voice_omni.model_runner.interface import RowOutcome, Work
from voice_omni.model_runner.one_by_one import one_by_one


def work(name: str) -> Work[str]:
    return Work(name, name, [], False)


def test_what_one_raises_fails_it_alone() -> None:
    def push(work: Work[str], kept: int) -> RowOutcome:
        if work.state == "bad":
            raise ValueError("no")
        return RowOutcome(feed=Feed([], kept=kept))

    first, bad, last = one_by_one(push, [work("a"), work("bad"), work("b")], [1, 2, 3])
    assert isinstance(bad.error, ValueError)
    assert bad.feed is None
    assert [None if each.feed is None else each.feed.kept for each in (first, last)] == [1, 3]


def test_each_has_its_own_arguments() -> None:
    with pytest.raises(ValueError, match="argument"):
        one_by_one(lambda work, number: RowOutcome(), [work("a"), work("b")], [1])
