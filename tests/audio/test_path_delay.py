"""How long a missing packet is worth waiting for."""

from __future__ import annotations

import random

import pytest

from voice_omni.audio.path_delay import WINDOW_S, PathDelay


def observed(delays: list[float], interval: float = 0.02) -> PathDelay:
    path = PathDelay(min_wait=0.04, max_wait=0.12)
    for index, delay in enumerate(delays):
        path.observe(delay, index * interval)
    return path


def test_a_steady_path_is_given_the_shortest_wait() -> None:
    assert observed([5.0] * 100).wait == 0.04


def test_the_wait_covers_the_jitter_that_there_is() -> None:
    rng = random.Random(1)
    path = observed([rng.uniform(0, 0.06) for _ in range(100)])
    assert path.wait == pytest.approx(0.08, abs=0.005)


def test_the_wait_has_an_end() -> None:
    rng = random.Random(1)
    assert observed([rng.uniform(0, 0.5) for _ in range(100)]).wait == 0.12


def test_one_straggler_does_not_make_everything_wait() -> None:
    assert observed([5.0] * 50 + [5.4] + [5.0] * 49).wait == 0.04


def test_what_the_path_did_is_forgotten_after_the_window() -> None:
    rng = random.Random(1)
    restless = [rng.uniform(0, 0.5) for _ in range(100)]
    assert observed(restless + [0.3] * (int(WINDOW_S / 0.02) + 1)).wait == 0.04


def test_the_fastest_packet_follows_a_clock_that_drifts() -> None:
    drift = 1e-4
    path = observed([5.0 + drift * 0.02 * index for index in range(30_000)])
    assert path.fastest == pytest.approx(5.0 + drift * (0.02 * 30_000 - WINDOW_S), abs=1e-5)


def test_a_restart_forgets_everything() -> None:
    path = observed([1.0, 2.0, 3.0])
    path.restart()
    path.observe(7.0, 1.0)
    assert (path.fastest, path.wait) == (7.0, 0.04)
