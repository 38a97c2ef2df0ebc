"""A batch whose requests have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from voice_omni.model_runner.interface import RowOutcome, Work

S = TypeVar("S")


def one_by_one(
    push: Callable[..., RowOutcome], batch: Sequence[Work[S]], *arguments: Sequence[Any]
) -> list[RowOutcome]:
    """``push`` of each request, with one of each of the ``arguments``, as many as requests. What it raises fails that
    request alone."""

    def outcome(work: Work[S], *its: Any) -> RowOutcome:
        try:
            return push(work, *its)
        except Exception as error:  # noqa: BLE001 - one request's failure is its own
            return RowOutcome(error=error)

    # All of them first: each call changes its request's state.
    given = list(zip(batch, *arguments, strict=True))
    return [outcome(work, *its) for work, *its in given]
