"""A runner that does what the test tells it to."""

from __future__ import annotations

import pytest

from tests.scheduling.simple.bench import Runner


@pytest.fixture
def runner() -> Runner:
    return Runner()
