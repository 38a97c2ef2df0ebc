"""Connections never take all the files that the system gives a process."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.cli.open_files import connections_for, free_files


@given(st.integers(16, 100_000))
def test_the_last_bursts_fit_in(files: int) -> None:
    connections = connections_for(files)
    assert connections.most >= files // 2
    assert connections.most + 4 * connections.at_once < files


def test_with_hardly_any_files_somebody_is_still_let_in() -> None:
    for files in range(16):
        connections = connections_for(files)
        assert connections.most > 1
        assert connections.at_once > 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_system_is_asked_for_as_many_as_it_gives() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1] if before[1] != resource.RLIM_INFINITY else 65536
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), before[1]))
        assert free_files() > min(65536, hard) - 1000
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(65536, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
