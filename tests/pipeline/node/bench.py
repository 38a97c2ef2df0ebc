"""Two nodes, and what goes between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.nodes import Cluster, Recorder
from voice_omni.pipeline.node import Node, Parcel
from voice_omni.proto.messages import (
    Deliver,
)

INLINE = 1 << 10
RELAY = 1 << 16
LARGE = 20_000
"""More than rides in a control message; three fit into the relay's buffer."""


async def pair(cluster: Cluster) -> tuple[Node, Node, Recorder]:
    """Two nodes that know each other, and a handler ``stage`` at the second."""
    left, right = await cluster.start("left"), await cluster.start("right")
    handler = Recorder()
    right.attach("stage", handler)
    cluster.introduce("left", "right")
    await cluster.settle()
    return left, right, handler


def chunk(seq: int, data: dict[str, Any], request_id: str = "r") -> Deliver:
    return Deliver(request_id, "source", seq, "chunk", data)


async def deliver(node: Node, to: str, message: Deliver, target: str = "stage") -> None:
    send = await node.prepare(to, message)
    send(target)


def buffers(run_dir: Path) -> list[str]:
    return sorted(path.name for path in run_dir.glob("*.relay"))


async def opened(handler: Recorder, index: int = -1) -> np.ndarray:
    parcel = handler.parcels[index]
    assert isinstance(parcel, Parcel)
    return (await parcel.open())["x"]
