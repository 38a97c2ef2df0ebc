"""What every relay promises, over each of them: what is written is read, writers wait in turn, and no room is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.host_memory import HostMemory
from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import RelayRef
from voice_omni.relay.cuda_ipc import CudaIpc
from voice_omni.relay.interface import Inbound, Outbound
from voice_omni.relay.shm import ShmInbound, ShmOutbound

SIZE = 1024
PATIENCE_S = 20.0
"""Only reached when a test would hang otherwise."""


class Link:
    """Both halves of a relay. ``carried`` makes what it carries of an array."""

    def __init__(self, inbound: Inbound, outbound: Outbound, carried: Callable[[np.ndarray], Any]) -> None:
        self.inbound = inbound
        self.outbound = outbound
        self._carried = carried

    async def write(self, arrays: Sequence[np.ndarray]) -> RelayRef:
        return await self.outbound.write([self._carried(array) for array in arrays])

    async def read(self, ref: RelayRef) -> np.ndarray:
        return np.asarray(await self.inbound.read(ref))

    async def fill(self, nbytes: int) -> RelayRef:
        return await self.write([np.zeros(nbytes, np.uint8)])

    def start_fill(self, nbytes: int) -> asyncio.Task[RelayRef]:
        return asyncio.create_task(self.fill(nbytes))

    async def emptied(self) -> None:
        """Returns when no room is in use, also none that a write which was given up still holds."""
        async with asyncio.timeout(PATIENCE_S):
            while self.outbound.in_use:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def shm(folder: Path) -> AsyncIterator[Link]:
    inbound = ShmInbound(folder / "buffer", SIZE)
    outbound = ShmOutbound(inbound.descriptor)
    yield Link(inbound, outbound, np.asarray)
    outbound.close()
    inbound.close()


@asynccontextmanager
async def cuda_ipc(folder: Path) -> AsyncIterator[Link]:
    receiver, sender = HostMemory(folder, 0), HostMemory(folder, 1)
    receiving, sending = CudaIpc(receiver, ["sender"], SIZE), CudaIpc(sender, [], SIZE)
    await receiving.start()
    await sending.start()
    inbound = receiving.inbound("sender")
    assert inbound is not None
    outbound = await sending.outbound(inbound.descriptor)
    yield Link(inbound, outbound, torch.from_numpy)
    outbound.close()
    inbound.close()
    await sending.close()
    await receiving.close()
    assert receiver.held == sender.held == 0


@pytest.fixture(params=[shm, cuda_ipc], ids=["shm", "cuda_ipc"])
async def link(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Link]:
    async with request.param(tmp_path) as made:
        yield made


async def turns(count: int = 5) -> None:
    """Let the tasks that can run do so."""
    for _ in range(count):
        await asyncio.sleep(0)


async def finished(task: asyncio.Task[RelayRef]) -> RelayRef:
    async with asyncio.timeout(PATIENCE_S):
        return await task


async def test_many_writes_lie_beside_each_other_and_are_freed_in_any_order(link: Link) -> None:
    random = np.random.default_rng(3)
    waiting: list[tuple[RelayRef, np.ndarray]] = []
    for _ in range(300):
        array = random.integers(0, 255, size=random.integers(1, 200), dtype=np.uint8)
        while link.outbound.in_use + codec.aligned(array.nbytes) > SIZE // 2:
            ref, written = waiting.pop(random.integers(len(waiting)))
            assert np.array_equal((await link.read(ref))[: written.nbytes], written)
            link.outbound.free(ref.offset)
        waiting.append((await link.write([array]), array))
    for ref, _ in waiting:
        link.outbound.free(ref.offset)
    assert link.outbound.in_use == 0
    assert (await link.fill(SIZE)).offset == 0


async def test_writes_may_overlap(link: Link) -> None:
    written = [np.full(100, number, np.uint8) for number in range(8)]
    refs = await asyncio.gather(*(link.write([array]) for array in written))
    assert len({ref.offset for ref in refs}) == 8
    blocks = await asyncio.gather(*(link.read(ref) for ref in refs))
    assert [set(block[:100].tolist()) for block in blocks] == [{number} for number in range(8)]


async def test_several_are_written_one_after_another_each_aligned(link: Link) -> None:
    ref = await link.write([np.full(65, 1, np.uint8), np.arange(3, dtype=np.float32), np.full(2, 3, np.uint8)])
    block = await link.read(ref)
    assert ref.nbytes == len(block) == link.outbound.in_use == 128 + 64 + 64
    assert set(block[:65].tolist()) == {1}
    assert block[128:140].view(np.float32).tolist() == [0, 1, 2]
    assert block[192:194].tolist() == [3, 3]


async def test_what_was_read_does_not_change_when_its_place_is_used_again(link: Link) -> None:
    first = await link.write([np.full(SIZE, 1, np.uint8)])
    taken = await link.read(first)
    link.outbound.free(first.offset)
    await link.write([np.full(SIZE, 2, np.uint8)])
    assert set(taken.tolist()) == {1}


async def test_a_writer_waits_for_room(link: Link) -> None:
    full = await link.fill(SIZE)
    waiter = link.start_fill(64)
    await turns()
    assert not waiter.done()
    link.outbound.free(full.offset)
    assert (await finished(waiter)).nbytes == 64


async def test_waiting_writers_are_served_in_turn(link: Link) -> None:
    """A small one does not pass a large one, which would then never get its room."""
    first, second = await link.fill(SIZE // 2), await link.fill(SIZE // 2)
    large, small = link.start_fill(SIZE), link.start_fill(64)
    await turns()
    link.outbound.free(first.offset)
    await turns()
    assert not large.done()
    assert not small.done()
    link.outbound.free(second.offset)
    await finished(large)
    assert not small.done()
    link.outbound.free(large.result().offset)
    await finished(small)


async def test_a_newcomer_queues_behind_those_who_wait(link: Link) -> None:
    held = await link.fill(SIZE // 2)
    large = link.start_fill(SIZE)
    await turns()
    newcomer = link.start_fill(64)
    await turns()
    assert not newcomer.done()
    link.outbound.free(held.offset)
    link.outbound.free((await finished(large)).offset)
    await finished(newcomer)


async def test_a_cancelled_waiter_takes_no_room(link: Link) -> None:
    full = await link.fill(SIZE)
    waiter = link.start_fill(64)
    await turns()
    waiter.cancel()
    await turns()
    link.outbound.free(full.offset)
    assert link.outbound.in_use == 0
    assert (await link.fill(SIZE)).offset == 0


async def test_a_cancelled_waiter_lets_those_behind_it_pass_at_once(link: Link) -> None:
    await link.fill(SIZE // 2)
    large, small = link.start_fill(SIZE), link.start_fill(64)
    await turns()
    large.cancel()
    await finished(small)


async def test_room_that_is_granted_and_not_taken_is_given_back(link: Link) -> None:
    """The grant and the cancellation fall into one turn of the loop."""
    full = await link.fill(SIZE)
    waiter, behind = link.start_fill(SIZE), link.start_fill(64)
    await turns()
    link.outbound.free(full.offset)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    taken = await finished(behind)
    assert link.outbound.in_use == 64
    link.outbound.free(taken.offset)
    assert link.outbound.in_use == 0


async def test_cancelling_at_any_moment_loses_no_room(link: Link) -> None:
    """Writers that come, wait, are served or cancelled in a random order: in the end the buffer is empty."""
    random = np.random.default_rng(11)
    running: list[asyncio.Task[RelayRef]] = []
    for _ in range(500):
        match random.integers(4):
            case 0:
                running.append(link.start_fill(int(random.integers(1, SIZE))))
            case 1 if running:
                running[random.integers(len(running))].cancel()
            case 2:
                await asyncio.sleep(0)
            case 3:
                done = [task for task in running if task.done() and not task.cancelled()]
                if done:
                    running.remove(done[0])
                    link.outbound.free(done[0].result().offset)
    while running:
        done_now, _ = await asyncio.wait(running, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert done_now, "someone waits for room that nobody holds"
        for task in done_now:
            running.remove(task)
            if not task.cancelled():
                link.outbound.free(task.result().offset)
    await link.emptied()
    assert (await link.fill(SIZE)).offset == 0


async def test_more_than_the_buffer_holds_is_refused_and_says_what_to_raise(link: Link) -> None:
    with pytest.raises(OmniError, match=r"limits\.relay_bytes") as raised:
        await link.fill(SIZE + 1)
    assert raised.value.code == "payload_too_large"
    assert link.outbound.in_use == 0


async def test_waiting_writers_are_told_when_the_link_closes(link: Link) -> None:
    await link.fill(SIZE)
    waiters = [link.start_fill(64) for _ in range(3)]
    await turns()
    link.outbound.close()
    for waiter in waiters:
        with pytest.raises(OmniError) as raised:
            await waiter
        assert raised.value.code == "stage_died"
        assert raised.value.info.retryable


async def test_a_writer_with_room_granted_just_before_the_link_closes_is_told(link: Link) -> None:
    full = await link.fill(SIZE)
    waiter = link.start_fill(64)
    await turns()
    link.outbound.free(full.offset)
    link.outbound.close()
    with pytest.raises(OmniError) as raised:
        await waiter
    assert raised.value.code == "stage_died"


async def test_nothing_is_written_to_a_closed_link(link: Link) -> None:
    link.outbound.close()
    with pytest.raises(OmniError) as raised:
        await link.fill(64)
    assert raised.value.code == "stage_died"


async def test_nothing_is_read_from_a_closed_link(link: Link) -> None:
    ref = await link.fill(64)
    link.inbound.close()
    with pytest.raises(OmniError) as raised:
        await link.read(ref)
    assert raised.value.code == "stage_died"
    assert raised.value.info.retryable


async def test_what_was_read_outlives_the_link(link: Link) -> None:
    taken = await link.read(await link.write([np.arange(64, dtype=np.uint8)]))
    link.outbound.close()
    link.inbound.close()
    assert np.array_equal(taken, np.arange(64))


async def test_closing_may_be_repeated(link: Link) -> None:
    for _ in range(2):
        link.outbound.close()
        link.inbound.close()
