"""Nodes that share a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pipeline.node.bench import INLINE, RELAY
from tests.support.nodes import Cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, inline_bytes=INLINE, relay_bytes=RELAY) as made:
        yield made
