"""A coordinator, and the nodes around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pipeline.coordinator.bench import Bench
from tests.support.nodes import Cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, inline_bytes=1 << 10, relay_bytes=1 << 16) as made:
        yield made


@pytest.fixture
async def bench(cluster: Cluster) -> Bench:
    return await Bench(cluster).start()
