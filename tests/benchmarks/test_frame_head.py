"""The benchmark of the frame head runs where there is no GPU."""

from __future__ import annotations

import pytest

from benchmarks.frame_head import main


def test_it_prints_a_row_for_each_number_of_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.frame_head.ROUNDS", 2)
    monkeypatch.setattr("benchmarks.frame_head.COPIED", 2**20)
    main(["--device", "cpu", "--rows", "1,2", "--layers", "1"])
    table = capsys.readouterr().out.splitlines()[1:]
    assert [line.split("|")[1].strip() for line in table] == ["rows", "---", "1", "2"]
    assert all(float(line.split("|")[2]) > 0 for line in table[2:])
