"""Device tensors between nodes of one event loop, on devices whose memory is the host's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.host_memory import HostMemory
from tests.support.nodes import PATIENCE_S, Cluster, Recorder, idle
from voice_omni.pipeline.node import Node, Parcel
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Deliver, PeerUp
from voice_omni.relay.cuda_ipc import CudaIpc

INLINE = 1 << 10
RELAY = 1 << 16
LARGE = 40_000
"""More than half of what a relay's buffer holds."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, inline_bytes=INLINE, relay_bytes=RELAY) as made:
        yield made


@dataclass
class Pair:
    """``left`` feeds ``right``; both have devices, ``memories`` and ``devices`` in that order."""

    cluster: Cluster
    memories: tuple[HostMemory, HostMemory]
    devices: tuple[CudaIpc, CudaIpc]
    left: Node
    right: Node
    handler: Recorder

    async def send(self, data: dict[str, Any], seq: int = 0) -> None:
        (await self.left.prepare("right", Deliver("r", "source", seq, "chunk", data)))("stage")

    async def received(self, index: int = 0) -> dict[str, Any]:
        await self.handler.count(index + 1)
        parcel = self.handler.parcels[index]
        return self.handler.of(Deliver)[index].body if parcel is None else await parcel.open()

    async def settled(self) -> None:
        """Returns when nothing is under way."""
        async with asyncio.timeout(PATIENCE_S):
            while not (idle(self.left) and idle(self.right)):
                await asyncio.sleep(0.001)


@pytest.fixture
async def pair(cluster: Cluster, tmp_path: Path) -> Pair:
    memories = HostMemory(tmp_path, 0), HostMemory(tmp_path, 1)
    devices = CudaIpc(memories[0], [], RELAY), CudaIpc(memories[1], ["left"], RELAY)
    left, right = await cluster.start("left", device=devices[0]), await cluster.start("right", device=devices[1])
    handler = Recorder()
    right.attach("stage", handler)
    cluster.introduce("left", "right")
    return Pair(cluster, memories, devices, left, right, handler)


def rows(nbytes: int = 128, value: float = 1) -> torch.Tensor:
    return torch.full((nbytes // 2,), value, dtype=torch.bfloat16)


# -- with two devices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [0, 2, LARGE])
async def test_a_tensor_of_any_size_arrives_on_the_device(pair: Pair, nbytes: int) -> None:
    assert not pair.left.is_immediate("right", Deliver("r", "source", 0, "chunk", {"x": rows(nbytes)}))
    await pair.send({"x": rows(nbytes, 3)})
    received = (await pair.received())["x"]
    assert torch.equal(received, rows(nbytes, 3))
    await pair.settled()


@pytest.mark.parametrize("nbytes", [8, LARGE])
async def test_arrays_beside_it_go_their_own_way(pair: Pair, nbytes: int) -> None:
    array = np.arange(nbytes // 8)
    await pair.send({"x": rows(), "deep": [{"y": array}, rows(LARGE, 2)], "text": "!"})
    assert pair.left.stats()["relay_bytes"] >= LARGE + (nbytes if nbytes > INLINE else 0)
    received = await pair.received()
    assert torch.equal(received["x"], rows())
    assert torch.equal(received["deep"][1], rows(LARGE, 2))
    assert np.array_equal(received["deep"][0]["y"], array)
    assert received["text"] == "!"
    await pair.settled()


async def test_many_more_than_fit_get_through_and_nothing_is_left(pair: Pair) -> None:
    sends = asyncio.gather(*(pair.send({"x": rows(LARGE, number % 100)}, number) for number in range(200)))
    for number in range(200):
        assert (await pair.received(number))["x"][0] == number % 100
    await sends
    await pair.settled()
    assert pair.devices[0].mapped == 1
    assert pair.memories[1].held == 1


async def test_a_parcel_that_is_dropped_gives_both_its_places_back(pair: Pair) -> None:
    await pair.send({"x": rows(LARGE), "y": np.zeros(LARGE, np.uint8)})
    await pair.handler.count(1)
    parcel = pair.handler.parcels[0]
    assert isinstance(parcel, Parcel)
    parcel.drop()
    await pair.settled()


async def test_what_is_written_to_the_device_is_given_back_when_the_arrays_beside_it_find_no_room(pair: Pair) -> None:
    with pytest.raises(OmniError, match=r"limits\.relay_bytes"):
        await pair.send({"x": rows(), "y": np.zeros(RELAY + 1, np.uint8)})
    await pair.settled()


async def test_more_than_the_devices_buffer_holds_is_refused(pair: Pair) -> None:
    with pytest.raises(OmniError, match=r"limits\.relay_bytes") as raised:
        await pair.send({"x": rows(RELAY + 2)})
    assert raised.value.code == "payload_too_large"
    await pair.settled()


async def test_inside_a_node_a_tensor_is_handed_over_by_reference(pair: Pair) -> None:
    own = Recorder()
    pair.left.attach("own", own)
    tree = {"x": rows()}
    (await pair.left.prepare("left", Deliver("r", "source", 0, "chunk", tree)))("own")
    await own.count(1)
    assert own.of(Deliver)[0].body is tree


# -- without -----------------------------------------------------------------------------------------------------------


async def test_a_node_without_a_device_gets_arrays(cluster: Cluster, pair: Pair) -> None:
    plain = await cluster.start("plain")
    handler = Recorder()
    plain.attach("stage", handler)
    cluster.introduce("left", "plain")
    for seq, nbytes in enumerate((128, LARGE // 2)):
        data = {"x": rows(nbytes, 0.5), "y": np.arange(3)}
        (await pair.left.prepare("plain", Deliver("r", "source", seq, "chunk", data)))("stage")
    await handler.count(2)
    small, parcel = handler.of(Deliver)[0].body, handler.parcels[1]
    assert handler.parcels[0] is None, "small enough to ride in the message"
    assert parcel is not None
    for received, nbytes in ((small, 128), (await parcel.open(), LARGE // 2)):
        assert received["x"].dtype == np.float32
        assert np.array_equal(received["x"], np.full(nbytes // 2, 0.5, np.float32))
        assert np.array_equal(received["y"], np.arange(3))


async def test_a_node_that_is_not_fed_by_this_one_gets_arrays(pair: Pair) -> None:
    handler = Recorder()
    pair.left.attach("stage", handler)
    data = {"x": rows(value=0.5)}
    (await pair.right.prepare("left", Deliver("r", "source", 0, "chunk", data)))("stage")
    await handler.count(1)
    assert np.array_equal(handler.of(Deliver)[0].body["x"], np.full(64, 0.5, np.float32))


async def test_what_the_device_cannot_reach_is_said_with_each_tensor_and_arrays_go_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    left = await cluster.start("left", device=CudaIpc(HostMemory(tmp_path, 0), [], RELAY))
    right = await cluster.start("right", device=CudaIpc(HostMemory(tmp_path, 7), ["left"], RELAY))
    handler = Recorder()
    right.attach("stage", handler)
    cluster.introduce("left", "right")
    for _ in range(2):
        with pytest.raises(OmniError) as raised:
            await left.prepare("right", Deliver("r", "source", 0, "chunk", {"x": rows()}))
        assert raised.value.code == "no_peer_access"
    send = await left.prepare("right", Deliver("r", "source", 0, "chunk", {"x": np.zeros(LARGE, np.uint8)}))
    send("stage")
    await handler.count(1)


# -- going down --------------------------------------------------------------------------------------------------------


async def test_writers_that_wait_for_room_are_told_when_the_receiver_dies(pair: Pair) -> None:
    await pair.send({"x": rows(LARGE)})
    waiting = asyncio.create_task(pair.send({"x": rows(LARGE)}, 1))
    await pair.handler.count(1)
    await pair.cluster.kill("right", tell=("left",))
    with pytest.raises(OmniError) as raised:
        await waiting
    assert raised.value.code == "stage_died"
    assert idle(pair.left)
    async with asyncio.timeout(PATIENCE_S):
        while pair.devices[0].mapped:
            await asyncio.sleep(0.001)


async def test_the_link_to_a_receiver_that_comes_back_is_a_new_one(pair: Pair, tmp_path: Path) -> None:
    await pair.send({"x": rows(LARGE)})
    await pair.cluster.kill("right", tell=("left",))
    device = CudaIpc(HostMemory(tmp_path, 1), ["left"], RELAY)
    pair.right = await pair.cluster.start("right", 1, device)
    pair.handler = Recorder()
    pair.right.attach("stage", pair.handler)
    pair.cluster.introduce("left", "right")
    await pair.send({"x": rows(LARGE, 2)})
    assert (await pair.received())["x"][0] == 2
    await pair.settled()
    assert pair.devices[0].mapped == 1


async def test_a_sender_that_comes_back_writes_into_the_same_memory(pair: Pair, tmp_path: Path) -> None:
    await pair.send({"x": rows(LARGE)})
    await pair.handler.count(1)
    await pair.cluster.kill("left", tell=("right",))
    pair.left = await pair.cluster.start("left", 1, CudaIpc(HostMemory(tmp_path, 0), [], RELAY))
    pair.cluster.introduce("left", "right")
    await pair.send({"x": rows(LARGE, 2)}, 1)
    with pytest.raises(OmniError) as raised:
        await pair.received(0)
    assert raised.value.code == "stage_died"
    assert (await pair.received(1))["x"][0] == 2
    await pair.settled()
    assert pair.memories[1].held == 1


async def test_a_receiver_that_dies_while_its_buffer_is_opened_leaves_no_mapping(pair: Pair, tmp_path: Path) -> None:
    await pair.send({"x": rows()})
    await pair.received()
    pair.memories[0].idle.clear()
    busy = asyncio.create_task(pair.send({"x": rows()}, 1))
    device = CudaIpc(HostMemory(tmp_path, 1), ["left"], RELAY)
    other = await pair.cluster.start("other", 0, device)
    pair.cluster.introduce("left", "other")
    await asyncio.sleep(0.02)
    pair.left.peer_down("other", 0)
    pair.memories[0].idle.set()
    await busy
    await pair.received(1)
    await pair.settled()
    assert pair.devices[0].mapped == 1
    pair.cluster.tell("left", PeerUp("other", 1, other.endpoint))
    waiting = asyncio.create_task(pair.left.prepare("other", Deliver("r", "s", 0, "chunk", {"x": rows()})))
    await asyncio.sleep(0.02)
    assert not waiting.done(), "it waits for the offer of the next incarnation"
    waiting.cancel()
