"""Shared memory between processes of one host: a mapped file in the run's directory (on Linux in ``/dev/shm``).

A file rather than POSIX shared memory by name: whoever removes the run's directory has removed everything, however
the processes ended, and no resource tracker takes part.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.proto.codec import aligned, packed_size
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import RelayRef
from voice_omni.relay.room import Room


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
    """Maps the receiver's file and allocates inside it."""

    def __init__(self, descriptor: bytes) -> None:
        where = msgspec.msgpack.decode(descriptor, type=_Descriptor)
        fd = os.open(where.path, os.O_RDWR)
        try:
            self._map = mmap.mmap(fd, where.size)
        finally:
            os.close(fd)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)
        self._room = Room(where.size)

    async def write(self, arrays: Sequence[NDArray[Any]]) -> RelayRef:
        nbytes = packed_size(arrays)
        start = await self._room.take(nbytes)
        offset = start
        for array in arrays:
            target = self._bytes[offset : offset + array.nbytes].view(array.dtype)
            np.copyto(target, array.reshape(-1))
            offset += aligned(array.nbytes)
        return RelayRef(start, nbytes)

    def free(self, offset: int) -> None:
        self._room.free(offset)

    @property
    def in_use(self) -> int:
        return self._room.in_use

    def close(self) -> None:
        if not self._room.closed:
            self._room.close()
            self._bytes = self._bytes[:0].copy()  # the map cannot be closed while an array looks into it
            self._map.close()
