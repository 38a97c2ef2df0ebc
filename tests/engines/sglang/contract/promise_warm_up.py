"""Before an engine serves, its scheduler has met every kind of batch, and keeps nothing of them but cached KV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engines.sglang.contract.conftest import DEVICE, Bench

MOST = 6

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="compiles for minutes")


@dataclass(frozen=True)
class Batch:
    """``positions`` that it prefills; 0: it is a decode step. ``drawn``: how many of its rows are not greedy."""

    rows: int
    positions: int
    drawn: int


def batches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """What its scheduler computes while a warm-up runs."""
    from voice_omni.engines.sglang.warm_up import warm_up

    seen: list[Batch] = []
    run = bench.scheduler.run_batch

    def observed(batch: Any, *rest: Any) -> Any:
        positions = batch.extend_num_tokens if batch.forward_mode.is_extend() else 0
        drawn = sum(request.sampling_params.top_k != 1 for request in batch.reqs)
        seen.append(Batch(len(batch.reqs), positions, drawn))
        return run(batch, *rest)

    monkeypatch.setattr(bench.scheduler, "run_batch", observed)
    warm_up(bench.engine)
    return seen


def assert_all_kinds(seen: list[Batch]) -> None:
    steps = [batch.rows for batch in seen if not batch.positions]
    prefills = [batch for batch in seen if batch.positions]
    assert {1, 2, 3, MOST} <= set(steps)
    assert any(batch.rows == 1 and batch.positions > 500 for batch in prefills), "longer than any captured graph"
    assert any(batch.rows == 1 and batch.positions < 3 for batch in prefills), "found in the cache but for its end"
    assert max(batch.rows for batch in prefills) > 1


@pytest.mark.parametrize("kind", ["tokens", "rows", "frames"])
def test_all_kinds_of_batches(
    make: Callable[..., Bench],
    tiny: Path,
    omni: Path,
    talker: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    thinker = {"architecture": "Qwen3OmniThinker", "hidden_layer": 2}
    folder, options = {"tokens": (tiny, {}), "rows": (omni, thinker), "frames": (talker, {})}[kind]
    bench = make(folder, kv_tokens=2048, max_rows=MOST, **options)
    seen = batches(bench, monkeypatch)
    assert_all_kinds(seen)
    if kind != "frames":
        # A frame head draws by itself, and leaves SGLang one candidate.
        assert {batch.drawn for batch in seen if batch.rows == 1 and not batch.positions} == {0, 1}
    assert set(bench.engine.stats().values()) == {0}
    bench.assert_nothing_held()


def test_a_pool_that_is_too_small_for_many_at_once(
    make: Callable[..., Bench], tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make(tiny, kv_tokens=64, max_rows=8)
    assert batches(bench, monkeypatch)
    bench.assert_nothing_held()
