"""Device tensors between processes of one host, by CUDA IPC: written by the sender into the receiver's device memory.

Nothing passes through the host, on one device or between two. The driver's part is behind
:class:`~voice_omni.relay.device_memory.DeviceMemory`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from voice_omni.proto.codec import ALIGNMENT, aligned, packed_size
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import RelayRef
from voice_omni.proto.tensors import Tensor
from voice_omni.relay.device_memory import DeviceMemory
from voice_omni.relay.room import Room

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _Descriptor(msgspec.Struct, array_like=True):
    handle: bytes
    size: int


class CudaIpc:
    """The device side of one process: a buffer for every node that feeds it, and its mappings of other nodes' buffers.

    All work on the device is done by one thread, in order, and each piece of it is complete before anyone is told of
    it: the event loop never waits for the device, a reader never depends on a writer that may have died meanwhile, and
    a mapping is given up only behind the writes into it.

    A buffer outlives its writer, so that no memory is allocated or freed while the process serves: either would make
    the device wait. The next incarnation of the writer gets the same buffer.
    """

    def __init__(self, memory: DeviceMemory, feeders: Iterable[str], nbytes: int) -> None:
        """``feeders``: the nodes that get a buffer here, ``nbytes`` large."""
        self._memory = memory
        self._feeders = tuple(feeders)
        self._nbytes = nbytes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="relay-device")
        self._buffers: dict[str, tuple[int, bytes]] = {}
        self._mapped: list[int] = []

    async def start(self) -> None:
        """Take the buffers. Raises :class:`OmniError`: ``missing_device``, ``device_failed`` (out of memory)."""
        await self._run(self._start)

    def _start(self) -> None:
        self._memory.start()
        for node in self._feeders:
            address = self._memory.allocate(self._nbytes)
            descriptor = _Descriptor(self._memory.export(address), self._nbytes)
            self._buffers[node] = (address, msgspec.msgpack.encode(descriptor))

    def inbound(self, node: str) -> CudaIpcInbound | None:
        """A receiver's half for a new incarnation of ``node``; None where it does not feed this process."""
        if node not in self._buffers:
            return None
        address, descriptor = self._buffers[node]
        return CudaIpcInbound(descriptor, lambda ref: self._run(self._copy_out, address, ref))

    async def outbound(self, descriptor: bytes) -> CudaIpcOutbound:
        """A sender's half over a buffer of another process.

        Raises :class:`OmniError`: ``no_peer_access`` (this device cannot reach that one), ``device_failed``.
        """
        where = msgspec.msgpack.decode(descriptor, type=_Descriptor)
        address = await self._run(self._map, where.handle)
        return CudaIpcOutbound(
            where.size,
            lambda offset, tensors: self._run(self._copy_in, address + offset, tensors),
            lambda: self._thread.submit(self._unmap, address).add_done_callback(_log_failure),
        )

    @property
    def mapped(self) -> int:
        """How many buffers of other processes are mapped here: one for each link that is up."""
        return len(self._mapped)

    async def close(self) -> None:
        """Give everything back, behind what is under way."""
        await self._run(self._stop)
        self._thread.shutdown()

    # -- on the thread -------------------------------------------------------------------------------------------

    def _run(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _map(self, handle: bytes) -> int:
        address = self._memory.open(handle)
        self._mapped.append(address)
        return address

    def _unmap(self, address: int) -> None:
        self._mapped.remove(address)
        self._memory.close(address)

    def _copy_in(self, address: int, tensors: Sequence[Tensor]) -> None:
        # Kept until all copies are done: a copy that was made dense would otherwise be gone, or another tensor's.
        sources = [self._memory.dense(tensor) for tensor in tensors]
        for source in sources:
            self._memory.copy(address, source.data_ptr(), source.nbytes)
            address += aligned(source.nbytes)
        self._memory.synchronize()

    def _copy_out(self, address: int, ref: RelayRef) -> Tensor:
        if ref.offset < 0 or ref.nbytes <= 0 or ref.offset + ref.nbytes > self._nbytes:
            raise OmniError("protocol_error", f"{ref} lies outside of a buffer of {self._nbytes} bytes")
        block = self._memory.empty(ref.nbytes)
        self._memory.copy(block.data_ptr(), address + ref.offset, ref.nbytes)
        self._memory.synchronize()
        return block

    def _stop(self) -> None:
        for address in list(self._mapped):
            self._unmap(address)
        for address, _ in self._buffers.values():
            self._memory.free(address)
        self._buffers.clear()
        self._memory.stop()


class CudaIpcInbound:
    """The buffer as one incarnation of its writer uses it."""

    def __init__(self, descriptor: bytes, copy_out: Callable[[RelayRef], asyncio.Future[Tensor]]) -> None:
        self.descriptor = descriptor
        self._copy_out = copy_out
        self._closed = False

    async def read(self, ref: RelayRef) -> Tensor:
        """A uint8 tensor ``[ref.nbytes]`` on this process's device, ready for use on any stream."""
        self._check_open()
        block = await self._copy_out(ref)
        # The writer's next incarnation may have written to the same place meanwhile.
        self._check_open()
        return block

    def _check_open(self) -> None:
        if self._closed:
            raise OmniError("stage_died", "the link was closed before its data was read", retryable=True)

    def close(self) -> None:
        self._closed = True


class CudaIpcOutbound:
    """Allocates inside the receiver's buffer and writes to its mapping in this process."""

    def __init__(
        self,
        size: int,
        copy_in: Callable[[int, Sequence[Tensor]], asyncio.Future[None]],
        unmap: Callable[[], None],
    ) -> None:
        self._room = Room(size)
        self._copy_in = copy_in
        self._unmap = unmap

    async def write(self, arrays: Sequence[Tensor]) -> RelayRef:
        # Also for tensors without elements, whose place must be one that nobody else has.
        nbytes = max(packed_size(arrays), ALIGNMENT)
        start = await self._room.take(nbytes)
        copying = self._copy_in(start, arrays)
        try:
            await asyncio.shield(copying)
            self._room.check_open()
        except asyncio.CancelledError:
            # The device may still write there: the next one to get the place would find this one's data.
            copying.add_done_callback(lambda done: self._give_up(done, start))
            raise
        except Exception:
            self._room.free(start)
            raise
        return RelayRef(start, nbytes)

    def _give_up(self, copying: asyncio.Future[None], start: int) -> None:
        _log_failure(copying)
        self._room.free(start)

    def free(self, offset: int) -> None:
        self._room.free(offset)

    @property
    def in_use(self) -> int:
        return self._room.in_use

    def close(self) -> None:
        if not self._room.closed:
            self._room.close()
            self._unmap()


def _log_failure(done: asyncio.Future[None] | Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.error("the device relay failed where nobody waits for it", exc_info=error)
