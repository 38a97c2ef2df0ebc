"""The benchmark of where the time to the first sound goes drives the runners as the pipeline does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from benchmarks.full_size.figures import PARTS
from benchmarks.qwen3_omni_stages import main


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It computes on one thread."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_it_prints_every_part_of_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rounds", "2", "--seconds", "1"])
    printed = capsys.readouterr().out
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert [row[0].removeprefix("| ") for row in rows] == ["part", *PARTS, "total"]
    assert all(float(row[1]) > 0 for row in rows[1:])
    assert "Orchestration: " in printed
