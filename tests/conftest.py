"""Settings that hold for every test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine and who else uses it, not about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A thread of a small model has next to nothing to do between two steps. If it waits for the next one in a loop, as
# OpenMP's do, it takes the core from another test, or from the thread that it waits for: the same work then costs five
# times as much. Whatever a test starts inherits this.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

HERE: Final = Path(__file__).parent

LONGEST: Final = (
    "engines/sglang/test_contract.py",
    "e2e/test_starter_talks.py",
    "models/qwen3_omni/test_pipeline.py",
    "web/test_page_states.py",
    "web/test_page_live.py",
    "conformance/test_clients.py",
    "pipeline/test_processes.py",
    "web/test_page_behaviour.py",
    "server/test_calls.py",
    "web/test_engine_failures.py",
    "models/starter/test_listen.py",
    "web/test_engine_transports.py",
    "pipeline/test_device_processes.py",
    "web/test_engine_webrtc.py",
    "transports/webrtc/test_call.py",
    "web/test_engine_websocket.py",
    "models/qwen3_omni/test_conversation.py",
    "web/test_page_bundle.py",
    "benchmarks/test_qwen3_omni_gpu.py",
    "models/starter/test_think_weights.py",
)
"""The files that take longest, by what they take. A file is one worker's: who begins a long one when little else is
left keeps the others waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first."""
    rank = {HERE / name: place for place, name in enumerate(LONGEST)}
    if missing := [path for path in rank if not path.exists()]:
        raise pytest.UsageError(f"tests/conftest.py orders files that are not there: {missing}")
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pytest's, but short whatever the test is called and whichever worker runs it.

    Pipelines keep Unix sockets in there, and the path of one has 107 characters at most.
    """
    return tmp_path_factory.mktemp("t")
