"""Shared memory between processes of one host: a mapped file in the run's directory (on Linux in ``/dev/shm``).

A file rather than POSIX shared memory by name: whoever removes the run's directory has removed everything, however
the processes ended, and no resource tracker takes part.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.proto.codec import aligned, packed_size
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import RelayRef
from voice_omni.relay.arena import Arena


class _Descriptor(msgspec.Struct, array_like=True):
    path: str
    size: int


class ShmInbound:
    """Creates and maps a file of ``size`` bytes; pages take memory only once they are written."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._bytes: NDArray[np.uint8] | None = np.frombuffer(self._map, dtype=np.uint8)
        self.descriptor = msgspec.msgpack.encode(_Descriptor(str(path), size))

    async def read(self, ref: RelayRef) -> NDArray[Any]:
        if self._bytes is None:
            raise OmniError("stage_died", "the link was closed before its data was read", retryable=True)
        return self._bytes[ref.offset : ref.offset + ref.nbytes].copy()

    def close(self) -> None:
        if self._bytes is not None:
            self._bytes = None
            self._map.close()
            self._path.unlink(missing_ok=True)


class ShmOutbound:
    """Maps the receiver's file and allocates inside it; waiters are served in order."""

    def __init__(self, descriptor: bytes) -> None:
        where = msgspec.msgpack.decode(descriptor, type=_Descriptor)
        fd = os.open(where.path, os.O_RDWR)
        try:
            self._map = mmap.mmap(fd, where.size)
        finally:
            os.close(fd)
        self._bytes: NDArray[np.uint8] | None = np.frombuffer(self._map, dtype=np.uint8)
        self._arena = Arena(where.size)
        self._waiting: deque[tuple[int, asyncio.Future[int]]] = deque()

    async def write(self, arrays: Sequence[NDArray[Any]]) -> RelayRef:
        nbytes = packed_size(arrays)
        if nbytes > self._arena.size:
            raise OmniError(
                "payload_too_large",
                f"{nbytes} bytes of tensors exceed the relay's buffer of {self._arena.size} bytes;"
                " raise limits.relay_bytes",
            )
        start = await self._allocate(nbytes)
        if self._bytes is None:
            raise OmniError("stage_died", "the receiver went away before its data was written", retryable=True)
        offset = start
        for array in arrays:
            target = self._bytes[offset : offset + array.nbytes].view(array.dtype)
            np.copyto(target, array.reshape(-1))
            offset += aligned(array.nbytes)
        return RelayRef(start, nbytes)

    async def _allocate(self, nbytes: int) -> int:
        offset = self._arena.allocate(nbytes) if not self._waiting else None
        if offset is not None:
            return offset
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((nbytes, granted))
        try:
            return await granted
        except asyncio.CancelledError:
            # Granted and cancelled in the same turn of the loop: the room would be lost for good.
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.free(granted.result())
            else:
                self._serve()  # a smaller one may have waited behind this one only
            raise

    def free(self, offset: int) -> None:
        self._arena.free(offset)
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            nbytes, granted = self._waiting[0]
            if not granted.done():
                room = self._arena.allocate(nbytes)
                if room is None:
                    return
                granted.set_result(room)
            self._waiting.popleft()

    @property
    def in_use(self) -> int:
        return self._arena.in_use

    def close(self) -> None:
        if self._bytes is None:
            return
        self._bytes = None
        self._map.close()
        while self._waiting:
            _, granted = self._waiting.popleft()
            if not granted.done():
                granted.set_exception(OmniError("stage_died", "the receiver went away", retryable=True))
