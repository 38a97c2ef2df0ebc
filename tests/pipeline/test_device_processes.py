"""Device tensors between two processes: through host memory that plays a device, and on GPUs where there are any."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from tests.support import device_toy
from tests.support.device_peer import HERE, HOLD, PEER, RELAY_BYTES, endpoint_of, spawn, start
from tests.support.nodes import Recorder, idle
from tests.support.pipelines import until_idle
from voice_omni.config.settings import ProcessSettings, Settings, default_settings
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.node import Node
from voice_omni.pipeline.supervisor import NodeState
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Abort, Deliver, Shutdown
from voice_omni.proto.payload import OmniRequest
from voice_omni.relay.cuda_ipc import CudaIpc

PATIENCE_S = 60.0
"""A process that loads torch and CUDA takes a while."""

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
one_gpu = pytest.mark.skipif(GPUS < 1, reason="needs a GPU that torch can use")
two_gpus = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs that torch can use")
DEVICES = [
    pytest.param(("host", "host"), id="host memory"),
    pytest.param(("cuda:0", "cuda:0"), marks=one_gpu, id="one GPU"),
    pytest.param(("cuda:0", "cuda:1"), marks=two_gpus, id="two GPUs"),
]


class Two:
    """A node here and its peer in another process, both with a device."""

    def __init__(self, node: Node, device: CudaIpc, run_dir: Path, kinds: tuple[str, str]) -> None:
        self.node = node
        self.device = device
        self.handler = Recorder()
        node.attach("stage", self.handler)
        self.place = torch.device("cpu" if kinds[0] == "host" else kinds[0])
        self._run_dir = run_dir
        self._kind = kinds[1]
        self._incarnation = -1

    async def start_peer(self) -> None:
        """Returns when it is up and both know each other."""
        self._incarnation += 1
        self.process = spawn(self._incarnation, self._run_dir, self._kind, self.node.endpoint)
        await self.until(lambda: bool(self.handler.of(Abort)))
        self.handler.messages.clear()
        self.handler.parcels.clear()
        self.node.peer_up(PEER, self._incarnation, endpoint_of(self._incarnation, self._run_dir))

    async def kill_peer(self) -> None:
        self.process.kill()
        await asyncio.to_thread(self.process.join)
        self.node.peer_down(PEER, self._incarnation)

    async def stop_peer(self) -> None:
        self.node.send(PEER, "", Shutdown())
        await asyncio.to_thread(self.process.join, PATIENCE_S)
        assert self.process.exitcode == 0

    async def send(self, data: dict[str, Any], seq: int = 0, request: str = "r") -> None:
        (await self.node.prepare(PEER, Deliver(request, HERE, seq, "chunk", data)))("stage")

    async def received(self, index: int) -> dict[str, Any]:
        await self.until(lambda: len(self.handler.messages) > index)
        parcel = self.handler.parcels[index]
        message = self.handler.messages[index]
        assert isinstance(message, Deliver)
        body: dict[str, Any] = message.body if parcel is None else await parcel.open()
        return body

    async def settled(self) -> None:
        """Nothing is under way here, and one buffer of the peer is mapped."""
        async with asyncio.timeout(PATIENCE_S):
            while not idle(self.node):
                await asyncio.sleep(0.001)
        assert self.device.mapped == 1

    async def until(self, predicate: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not predicate():
                assert self.process.exitcode is None, "the peer died"
                await asyncio.sleep(0.001)

    def rows(self, nbytes: int, value: float = 0) -> torch.Tensor:
        made = torch.full((nbytes // 2,), value, dtype=torch.bfloat16, device=self.place)
        if made.is_cuda:
            torch.cuda.synchronize(self.place)
        return made


@pytest.fixture(params=DEVICES)
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Two]:
    node, device = await start(HERE, 0, tmp_path, request.param[0], PEER)
    made = Two(node, device, tmp_path, request.param)
    await made.start_peer()
    yield made
    if made.process.is_alive():
        await made.stop_peer()
    await node.close()


async def test_trees_go_there_and_back_as_they_were(two: Two) -> None:
    generator = torch.Generator().manual_seed(5)
    trees: list[dict[str, Any]] = [
        {"x": torch.randn(shape, generator=generator).to(two.place, dtype)}
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
        for shape in ((), (0,), (1,), (3, 5), (1000, 64))
    ]
    trees.append({"codes": [torch.arange(12, device=two.place).reshape(3, 4).T, np.arange(4000)], "text": "!"})
    if two.place.type == "cuda":
        torch.cuda.synchronize(two.place)
    for number, tree in enumerate(trees):
        await two.send(tree, number)
        back = await two.received(number)
        if "codes" in tree:
            assert torch.equal(back["codes"][0], tree["codes"][0])
            assert np.array_equal(back["codes"][1], tree["codes"][1])
        else:
            assert back["x"].device == two.place
            assert back["x"].dtype == tree["x"].dtype
            assert torch.equal(back["x"], tree["x"])
    await two.settled()


async def test_many_messages_leave_nothing_behind(two: Two) -> None:
    """More than the buffers hold at a time, so that writers wait on both sides."""
    random = np.random.default_rng(2)
    sizes = [int(size) for size in random.integers(0, RELAY_BYTES // 3, size=300)]
    sends = asyncio.gather(*(two.send({"x": two.rows(size, n % 200)}, n) for n, size in enumerate(sizes)))
    for number in range(300):
        back = (await two.received(number))["x"]
        sent = two.handler.messages[number].seq  # type: ignore[union-attr]
        assert torch.equal(back, two.rows(sizes[sent], sent % 200))
    await sends
    await two.settled()


async def test_a_receiver_is_killed_while_writes_wait(two: Two) -> None:
    for number in range(4):
        await two.send({"x": two.rows(RELAY_BYTES // 4)}, number, HOLD)
    waiting = [asyncio.create_task(two.send({"x": two.rows(1000)}, number)) for number in range(3)]
    await asyncio.sleep(0.01)
    await two.kill_peer()
    for waiter in waiting:
        with pytest.raises(OmniError) as raised:
            await waiter
        assert raised.value.code == "stage_died"
    assert idle(two.node)
    await two.start_peer()
    await two.send({"x": two.rows(RELAY_BYTES, 1)})
    assert (await two.received(0))["x"][-1] == 1
    await two.settled()


async def test_a_sender_is_killed_and_its_link_is_made_anew(two: Two) -> None:
    await two.send({"x": two.rows(RELAY_BYTES // 2)})
    await two.until(lambda: bool(two.handler.messages))
    unread = two.handler.parcels[0]
    assert unread is not None
    await two.kill_peer()
    with pytest.raises(OmniError) as raised:
        await unread.open()
    assert raised.value.code == "stage_died"
    assert idle(two.node)
    await two.start_peer()
    await two.send({"x": two.rows(RELAY_BYTES, 9)})
    assert (await two.received(0))["x"][0] == 9
    await two.settled()


# -- a whole pipeline --------------------------------------------------------------------------------------------------


def placed(make: str, look: str, *, inline: bool = False) -> Settings:
    devices = {"make": make, "look": look}
    processes = {
        name: ProcessSettings(stages=(name,), device=device, inline=inline) for name, device in devices.items()
    }
    return msgspec.structs.replace(default_settings(device_toy.PIPELINE), processes=processes)


@asynccontextmanager
async def launched(settings: Settings, folder: Path) -> AsyncIterator[Launcher]:
    async with Launcher(device_toy.PIPELINE, settings, run_base=folder) as pipeline:
        yield pipeline


async def looked(pipeline: Launcher, request_id: str, count: int) -> dict[str, Any]:
    """What the second stage says of the first one's tensor."""
    request = OmniRequest(request_id=request_id, route="text_text", params={"count": count})
    handle = await pipeline.coordinator.submit(request)
    async for _ in handle:
        pass
    seen: dict[str, Any] = handle.record.results["look"]
    return seen


@pytest.mark.parametrize("count", [7, 100_000])
async def test_without_devices_the_second_stage_gets_an_array_and_loads_no_torch(tmp_path: Path, count: int) -> None:
    async with launched(placed("cpu", "cpu"), tmp_path) as pipeline:
        seen = await looked(pipeline, "r", count)
        assert seen == {"place": "host", "dtype": "float32", "right": True, "torch": False}
        assert await until_idle(pipeline) == {}


@pytest.mark.skipif(GPUS > 0, reason="needs a machine without a GPU")
@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("places", [("cuda", "cuda"), ("cpu", "cuda:1"), ("cuda", "cpu")])
async def test_a_device_that_is_not_there_is_said_at_start(
    tmp_path: Path, places: tuple[str, str], inline: bool
) -> None:
    """Whether or not it would exchange tensors, and before any stage is built, which may fetch a model first."""
    settings = placed(*places, inline=inline)
    with pytest.raises(OmniError, match=r"there is no device cuda.* here: the CUDA driver") as raised:
        async with launched(settings, tmp_path):
            pass
    assert raised.value.code == "missing_device"


@pytest.mark.parametrize(
    "other_device", [pytest.param("cuda:0", marks=one_gpu), pytest.param("cuda:1", marks=two_gpus)]
)
async def test_on_devices_the_tensor_stays_there_also_after_either_process_died(
    tmp_path: Path, other_device: str
) -> None:
    async with launched(placed("cuda", other_device), tmp_path) as pipeline:
        expected = {"place": other_device, "dtype": "torch.bfloat16", "right": True, "torch": True}
        assert await looked(pipeline, "r", 100_000) == expected
        for node in ("make.0", "look.0"):
            worker = pipeline.supervisor.workers[node]
            assert worker.process is not None
            os.kill(worker.process.pid, signal.SIGKILL)
            while worker.restarts == 0 or worker.state is not NodeState.READY:
                await asyncio.sleep(0.05)
            assert await looked(pipeline, f"after {node}", 100_000) == expected
        assert await until_idle(pipeline) == {}


@one_gpu
async def test_from_a_device_to_a_stage_without_one_it_goes_through_the_host(tmp_path: Path) -> None:
    async with launched(placed("cuda", "cpu"), tmp_path) as pipeline:
        seen = await looked(pipeline, "r", 257)
        assert seen == {"place": "host", "dtype": "float32", "right": True, "torch": False}
