"""Settings that hold for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine and who else uses it, not about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pytest's, but short whatever the test is called and whichever worker runs it.

    Pipelines keep Unix sockets in there, and the path of one has 107 characters at most.
    """
    return tmp_path_factory.mktemp("t")
