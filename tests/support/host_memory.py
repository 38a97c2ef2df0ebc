"""A device whose memory is the host's: the device relay's driver for machines without a GPU.

Other processes map it for real, and what is queued is done no earlier than it must be, at the next ``synchronize``.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

import msgspec
import torch

from voice_omni.proto.errors import OmniError


class _Handle(msgspec.Struct):
    path: str
    size: int
    device: int


class HostMemory:
    """Files in ``folder``. ``device``: its number; ``reaches``: the numbers of the others that it can write to.

    ``idle`` is a door for a test: while it is shut, the device is busy and nothing that is queued gets done.
    """

    def __init__(self, folder: Path, device: int = 0, reaches: Collection[int] = (0, 1)) -> None:
        self._folder = folder
        self._device = device
        self._reaches = reaches
        self._allocated: dict[int, tuple[mmap.mmap, _Handle]] = {}
        self._opened: dict[int, mmap.mmap] = {}
        self._queue: list[tuple[int, int, int]] = []
        self._thread: int | None = None
        self.idle = threading.Event()
        self.idle.set()

    def start(self) -> None:
        self._thread = threading.get_ident()

    def stop(self) -> None:
        self._check_thread()
        assert not self._queue, "something was queued and nobody has waited for it"

    def allocate(self, nbytes: int) -> int:
        self._check_thread()
        handle = _Handle(str(self._folder / f"device-{uuid4().hex}"), nbytes, self._device)
        Path(handle.path).write_bytes(bytes(nbytes))
        mapped = _map(handle)
        self._allocated[_address(mapped)] = (mapped, handle)
        return _address(mapped)

    def free(self, address: int) -> None:
        self._check_thread()
        mapped, handle = self._allocated.pop(address)
        mapped.close()
        Path(handle.path).unlink()

    def export(self, address: int) -> bytes:
        self._check_thread()
        return msgspec.msgpack.encode(self._allocated[address][1])

    def open(self, handle: bytes) -> int:
        self._check_thread()
        offered = msgspec.msgpack.decode(handle, type=_Handle)
        if offered.device not in self._reaches:
            raise OmniError("no_peer_access", f"device {self._device} cannot write to device {offered.device}")
        try:
            mapped = _map(offered)
        except FileNotFoundError as error:
            raise OmniError("device_failed", str(error)) from error
        self._opened[_address(mapped)] = mapped
        return _address(mapped)

    def close(self, address: int) -> None:
        self._check_thread()
        self._opened.pop(address).close()

    def empty(self, nbytes: int) -> torch.Tensor:
        self._check_thread()
        return torch.empty(nbytes, dtype=torch.uint8)

    def dense(self, tensor: torch.Tensor) -> torch.Tensor:
        self._check_thread()
        return tensor.detach().contiguous()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._check_thread()
        self._queue.append((target, source, nbytes))

    def synchronize(self) -> None:
        self._check_thread()
        self.idle.wait()
        for target, source, nbytes in self._queue:
            ctypes.memmove(target, source, nbytes)
        self._queue.clear()

    @property
    def held(self) -> int:
        """Allocations and mappings that nobody has given back."""
        return len(self._allocated) + len(self._opened)

    def _check_thread(self) -> None:
        assert threading.get_ident() == self._thread, "called on another thread than the relay's"


def _map(handle: _Handle) -> mmap.mmap:
    with open(handle.path, "r+b") as file:
        return mmap.mmap(file.fileno(), handle.size)


def _address(mapped: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))
