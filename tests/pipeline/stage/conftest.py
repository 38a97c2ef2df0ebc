"""What the tests of a stage share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pipeline.stage.bench import Bench
from tests.support.nodes import Cluster


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Cluster(tmp_path, inline_bytes=1 << 10, relay_bytes=1 << 16) as cluster:
        made = Bench(cluster)
        await made.start()
        yield made
