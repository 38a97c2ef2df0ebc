"""The device relay's own promises, on a device whose memory is the host's (:mod:`tests.support.host_memory`).

:mod:`tests.relay.test_contract` has what all relays promise; :mod:`tests.pipeline.test_device_processes` runs on a GPU
where there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch

from tests.support.host_memory import HostMemory
from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import RelayRef
from voice_omni.relay.cuda_ipc import CudaIpc, CudaIpcInbound, CudaIpcOutbound

SIZE = 1024
PATIENCE_S = 20.0


class Pair:
    """Two processes' device sides, the first of which feeds the second."""

    def __init__(self, folder: Path) -> None:
        self.memories = HostMemory(folder, 0), HostMemory(folder, 1)
        self.sending = CudaIpc(self.memories[0], [], SIZE)
        self.receiving = CudaIpc(self.memories[1], ["sender"], SIZE)

    async def start(self) -> None:
        await self.sending.start()
        await self.receiving.start()

    async def link(self) -> tuple[CudaIpcInbound, CudaIpcOutbound]:
        inbound = self.receiving.inbound("sender")
        assert inbound is not None
        return inbound, await self.sending.outbound(inbound.descriptor)

    def let_go(self) -> None:
        for memory in self.memories:
            memory.idle.set()

    async def close(self) -> None:
        self.let_go()
        await self.sending.close()
        await self.receiving.close()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await made.start()
    yield made
    await made.close()
    assert [memory.held for memory in made.memories] == [0, 0]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


async def emptied(outbound: CudaIpcOutbound) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while outbound.in_use:
            await asyncio.sleep(0.001)


def full(value: int, nbytes: int = SIZE) -> torch.Tensor:
    return torch.full((nbytes,), value, dtype=torch.uint8)


# -- what goes across --------------------------------------------------------------------------------------------------


async def test_tensors_are_read_as_they_were_written(pair: Pair) -> None:
    inbound, outbound = await pair.link()
    tree = {
        "rows": torch.randn(4, 5).bfloat16(),
        "transposed": torch.arange(6, dtype=torch.int16).reshape(2, 3).T,
        "strided": torch.arange(10)[::3],
        "of a graph": torch.ones(2, requires_grad=True) * 2,
        "empty": torch.zeros(0, 3),
        "one": torch.tensor(7),
    }
    body, _, tensors = codec.pack(tree)
    block = await inbound.read(await outbound.write(tensors))
    received = codec.unpack(body, [], block)
    for name, tensor in tree.items():
        assert received[name].dtype == tensor.dtype
        assert torch.equal(received[name], tensor)


async def test_tensors_without_elements_have_a_place_of_their_own(pair: Pair) -> None:
    inbound, outbound = await pair.link()
    refs = [await outbound.write([torch.zeros(0)]) for _ in range(3)]
    assert len({ref.offset for ref in refs}) == 3
    for ref in refs:
        await inbound.read(ref)
        outbound.free(ref.offset)
    assert outbound.in_use == 0


@pytest.mark.parametrize("ref", [RelayRef(-64, 64), RelayRef(SIZE - 64, 128), RelayRef(SIZE, 64), RelayRef(0, 0)])
async def test_nothing_outside_of_the_buffer_is_read(pair: Pair, ref: RelayRef) -> None:
    inbound, _ = await pair.link()
    with pytest.raises(OmniError) as raised:
        await inbound.read(ref)
    assert raised.value.code == "protocol_error"


# -- the device's time -------------------------------------------------------------------------------------------------


async def test_a_write_is_told_of_when_the_device_has_done_it(pair: Pair) -> None:
    """And the event loop goes on meanwhile: this test runs on it."""
    _, outbound = await pair.link()
    pair.memories[0].idle.clear()
    writing = asyncio.create_task(outbound.write([full(1)]))
    await turns()
    assert not writing.done()
    pair.let_go()
    await writing


async def test_a_read_is_done_when_the_device_has_done_it(pair: Pair) -> None:
    inbound, outbound = await pair.link()
    ref = await outbound.write([full(3)])
    pair.memories[1].idle.clear()
    reading = asyncio.create_task(inbound.read(ref))
    await turns()
    assert not reading.done()
    pair.let_go()
    assert set((await reading).tolist()) == {3}


async def test_the_room_of_a_write_that_is_given_up_is_free_only_behind_its_copy(pair: Pair) -> None:
    """Otherwise the device would write there after the next one has."""
    inbound, outbound = await pair.link()
    pair.memories[0].idle.clear()
    writing = asyncio.create_task(outbound.write([full(1)]))
    next_one = asyncio.create_task(outbound.write([full(2)]))
    await turns()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await turns()
    assert outbound.in_use == SIZE
    pair.let_go()
    assert set((await inbound.read(await next_one)).tolist()) == {2}


async def test_a_copy_keeps_its_source(pair: Pair) -> None:
    """The dense form of a strided tensor lives nowhere but in the relay."""
    inbound, outbound = await pair.link()
    pair.memories[0].idle.clear()
    writing = asyncio.create_task(outbound.write([torch.arange(SIZE, dtype=torch.int16)[::2].to(torch.uint8)[::2]]))
    await turns()
    noise = [full(255) for _ in range(100)]
    pair.let_go()
    block = await inbound.read(await writing)
    assert block[:64].tolist() == [4 * number % 256 for number in range(64)]
    del noise


# -- links come and go -------------------------------------------------------------------------------------------------


async def test_only_a_node_that_feeds_this_one_has_a_buffer(pair: Pair) -> None:
    assert pair.receiving.inbound("stranger") is None
    assert pair.sending.inbound("sender") is None


async def test_a_link_takes_one_mapping_and_gives_it_back(pair: Pair) -> None:
    for _ in range(50):
        inbound, outbound = await pair.link()
        assert pair.sending.mapped == 1
        await inbound.read(await outbound.write([full(1, 64)]))
        outbound.close()
        inbound.close()
    async with asyncio.timeout(PATIENCE_S):
        while pair.sending.mapped:
            await asyncio.sleep(0.001)
    assert pair.memories[0].held == 0


async def test_a_mapping_is_given_up_behind_the_writes_into_it(pair: Pair) -> None:
    _, outbound = await pair.link()
    pair.memories[0].idle.clear()
    writing = asyncio.create_task(outbound.write([full(1)]))
    await turns()
    outbound.close()
    await turns()
    assert pair.sending.mapped == 1
    pair.let_go()
    with pytest.raises(OmniError) as raised:
        await writing
    assert raised.value.code == "stage_died"
    assert outbound.in_use == 0
    await (await pair.link())[1].write([full(2)])
    assert pair.sending.mapped == 1


async def test_the_next_incarnation_of_a_writer_gets_the_same_memory_empty(pair: Pair) -> None:
    inbound, outbound = await pair.link()
    await outbound.write([full(1)])
    held = pair.memories[1].held
    inbound.close()
    outbound.close()
    inbound, outbound = await pair.link()
    assert pair.memories[1].held == held
    assert set((await inbound.read(await outbound.write([full(2)]))).tolist()) == {2}


async def test_what_is_read_while_its_writer_is_replaced_is_not_handed_out(pair: Pair) -> None:
    """The new incarnation may have written to the same place by then."""
    inbound, outbound = await pair.link()
    ref = await outbound.write([full(1)])
    pair.memories[1].idle.clear()
    reading = asyncio.create_task(inbound.read(ref))
    await turns()
    inbound.close()
    pair.let_go()
    with pytest.raises(OmniError) as raised:
        await reading
    assert raised.value.code == "stage_died"


async def test_a_device_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    far, near = CudaIpc(HostMemory(tmp_path, 5), ["sender"], SIZE), CudaIpc(HostMemory(tmp_path, 0), [], SIZE)
    await far.start()
    await near.start()
    inbound = far.inbound("sender")
    assert inbound is not None
    with pytest.raises(OmniError, match="device 0 cannot write to device 5") as raised:
        await near.outbound(inbound.descriptor)
    assert raised.value.code == "no_peer_access"
    assert near.mapped == 0
    await near.close()
    await far.close()


async def test_a_buffer_whose_owner_is_gone_cannot_be_opened(pair: Pair, tmp_path: Path) -> None:
    gone = CudaIpc(HostMemory(tmp_path), ["sender"], SIZE)
    await gone.start()
    inbound = gone.inbound("sender")
    assert inbound is not None
    await gone.close()
    with pytest.raises(OmniError) as raised:
        await pair.sending.outbound(inbound.descriptor)
    assert raised.value.code == "device_failed"
