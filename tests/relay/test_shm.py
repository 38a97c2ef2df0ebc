"""Shared memory between a sender and a receiver: what is written is read, in turn, and no room is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import RelayRef
from voice_omni.relay.shm import ShmInbound, ShmOutbound

SIZE = 1024


class Link:
    """Both halves over one file."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        self.path = path
        self.inbound = ShmInbound(path, size)
        self.outbound = ShmOutbound(self.inbound.descriptor)

    async def fill(self, nbytes: int) -> RelayRef:
        return await self.outbound.write([np.zeros(nbytes, np.uint8)])

    def start_fill(self, nbytes: int) -> asyncio.Task[RelayRef]:
        return asyncio.create_task(self.fill(nbytes))


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    made = Link(tmp_path / "buffer")
    yield made
    made.outbound.close()
    made.inbound.close()


async def turns(count: int = 5) -> None:
    """Let the tasks that can run do so."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_tensors_are_read_as_they_were_written(link: Link) -> None:
    tree = {
        "hidden": np.arange(20, dtype=np.float32).reshape(4, 5),
        "codes": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "empty": np.zeros((0, 3), np.float64),
        "one": np.array(7, np.int64),
    }
    body, arrays = codec.pack(tree)
    ref = await link.outbound.write(arrays)
    assert ref.nbytes == codec.packed_size(arrays) == link.outbound.in_use
    received = codec.unpack(body, codec.split(body, await link.inbound.read(ref)))
    assert received.keys() == tree.keys()
    for name, array in tree.items():
        assert received[name].dtype == array.dtype
        assert np.array_equal(received[name], array)


async def test_many_writes_lie_beside_each_other_and_are_freed_in_any_order(link: Link) -> None:
    random = np.random.default_rng(3)
    waiting: list[tuple[RelayRef, np.ndarray]] = []
    for _ in range(300):
        array = random.integers(0, 255, size=random.integers(1, 200), dtype=np.uint8)
        while link.outbound.in_use + codec.aligned(array.nbytes) > SIZE // 2:
            ref, written = waiting.pop(random.integers(len(waiting)))
            assert np.array_equal((await link.inbound.read(ref))[: written.nbytes], written)
            link.outbound.free(ref.offset)
        waiting.append((await link.outbound.write([array]), array))
    for ref, _ in waiting:
        link.outbound.free(ref.offset)
    assert link.outbound.in_use == 0
    assert (await link.fill(SIZE)).offset == 0


async def test_what_was_read_does_not_change_when_its_place_is_used_again(link: Link) -> None:
    first = await link.outbound.write([np.full(SIZE, 1, np.uint8)])
    taken = await link.inbound.read(first)
    link.outbound.free(first.offset)
    await link.outbound.write([np.full(SIZE, 2, np.uint8)])
    assert set(taken.tolist()) == {1}


async def test_a_writer_waits_for_room(link: Link) -> None:
    full = await link.fill(SIZE)
    waiter = link.start_fill(64)
    await turns()
    assert not waiter.done()
    link.outbound.free(full.offset)
    assert (await waiter).nbytes == 64


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
    await turns()
    assert large.done()
    assert not small.done()
    link.outbound.free((await large).offset)
    await small


async def test_a_newcomer_queues_behind_those_who_wait(link: Link) -> None:
    held = await link.fill(SIZE // 2)
    large = link.start_fill(SIZE)
    await turns()
    newcomer = link.start_fill(64)
    await turns()
    assert not newcomer.done()
    link.outbound.free(held.offset)
    link.outbound.free((await large).offset)
    await newcomer


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
    await turns()
    assert small.done()


async def test_room_that_is_granted_and_not_taken_is_given_back(link: Link) -> None:
    """The grant and the cancellation fall into one turn of the loop."""
    full = await link.fill(SIZE)
    waiter, behind = link.start_fill(SIZE), link.start_fill(64)
    await turns()
    link.outbound.free(full.offset)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    taken = await behind
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
        await turns()
        done = [task for task in running if task.done()]
        assert done, "someone waits for room that nobody holds"
        for task in done:
            running.remove(task)
            if not task.cancelled():
                link.outbound.free(task.result().offset)
    assert link.outbound.in_use == 0


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


async def test_nothing_is_read_from_a_closed_link(link: Link) -> None:
    ref = await link.fill(64)
    link.inbound.close()
    with pytest.raises(OmniError) as raised:
        await link.inbound.read(ref)
    assert raised.value.code == "stage_died"
    assert raised.value.info.retryable


async def test_closing_removes_the_file_and_may_be_repeated(link: Link) -> None:
    for _ in range(2):
        link.outbound.close()
        link.inbound.close()
    assert not link.path.exists()


async def test_a_tensor_that_was_read_outlives_the_link(link: Link) -> None:
    body, arrays = codec.pack({"x": np.arange(10)})
    ref = await link.outbound.write(arrays)
    received = codec.unpack(body, codec.split(body, await link.inbound.read(ref)))["x"]
    link.outbound.close()
    link.inbound.close()
    assert np.array_equal(received, np.arange(10))


def test_a_buffer_takes_no_memory_before_it_is_written(tmp_path: Path) -> None:
    large = Link(tmp_path / "large", 1 << 30)
    assert (tmp_path / "large").stat().st_blocks == 0
    large.outbound.close()
    large.inbound.close()


def test_two_receivers_never_share_a_file(link: Link) -> None:
    with pytest.raises(FileExistsError):
        ShmInbound(link.path, SIZE)
