"""What a shared device costs is printed, here of a processor that plays one."""

from __future__ import annotations

import pytest

from benchmarks.device_sharing import main


def test_work_is_timed_after_a_rest_and_beside_a_neighbour(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--device", "cpu", "--rounds", "1", "--rests", "0,0.01"])
    printed = capsys.readouterr().out
    for kind in ("launches", "graph", "read"):
        for when in ("10 ms of rest", "10 ms of a trickle", "another process computes"):
            assert f"| {kind} | {when} |" in printed
