"""A CUDA device as the relay sees it: the driver for what is shared, torch for its tensors and its stream."""

from __future__ import annotations

from typing import Final

import msgspec
import torch

from voice_omni.proto.errors import OmniError
from voice_omni.relay.cuda_driver import CudaDriver

_GRANULE: Final = 2 << 20
"""The driver cuts smaller allocations from blocks of this size, and a handle maps the block: it would show a peer the
neighbours."""

_URGENT: Final = -1
"""The stream's priority: a hop's copy goes before the kernels of a model that are queued already."""


class _Handle(msgspec.Struct, array_like=True):
    ipc: bytes
    device: bytes


class CudaMemory:
    """A :class:`~voice_omni.relay.device_memory.DeviceMemory`.

    What is exported is allocated by the driver, not by torch: its caching allocator shares blocks among tensors, and
    with ``expandable_segments`` gives memory that has no IPC handle. Tensors are torch's own of either kind, since they
    are only copied from and to.
    """

    def __init__(self, device: str) -> None:
        """``device``: ``cuda`` or ``cuda:N``."""
        self._device = torch.device("cuda", torch.device(device).index or 0)
        self._index = self._device.index

    def start(self) -> None:
        if not torch.cuda.is_available():
            raise OmniError("missing_device", f"this torch ({torch.__version__}) finds no CUDA device")
        self._driver = CudaDriver()
        if self._index >= self._driver.count():
            raise OmniError("missing_device", f"there is no {self._device}: devices found: {self._driver.count()}")
        self._driver.enter(self._index)
        torch.cuda.set_device(self._device)
        self._stream = torch.cuda.Stream(self._device, priority=_URGENT)  # type: ignore[no-untyped-call]
        # For this thread, so that what torch allocates and makes dense here is in order with the copies.
        torch.cuda.set_stream(self._stream)

    def stop(self) -> None:
        self._driver.leave(self._index)

    def allocate(self, nbytes: int) -> int:
        return self._driver.allocate(-(-nbytes // _GRANULE) * _GRANULE)

    def free(self, address: int) -> None:
        self._driver.free(address)

    def export(self, address: int) -> bytes:
        return msgspec.msgpack.encode(_Handle(self._driver.export(address), self._driver.uuid(self._index)))

    def open(self, handle: bytes) -> int:
        offered = msgspec.msgpack.decode(handle, type=_Handle)
        # A device that CUDA_VISIBLE_DEVICES hides from this process cannot be asked about, but it can be opened.
        for peer in range(self._driver.count()):
            other = peer != self._index and self._driver.uuid(peer) == offered.device
            if other and not self._driver.can_access(self._index, peer):
                raise OmniError(
                    "no_peer_access",
                    f"cuda:{self._index} cannot write to the memory of cuda:{peer}: they are connected neither by"
                    " NVLink nor by PCIe peer-to-peer. Place both stages on one device, or on devices that"
                    " `nvidia-smi topo -p2p w` shows as OK",
                )
        return self._driver.open(offered.ipc)

    def close(self, address: int) -> None:
        self._driver.close(address)

    def empty(self, nbytes: int) -> torch.Tensor:
        try:
            block = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
        except RuntimeError as error:
            raise OmniError("device_failed", str(error)) from error
        # The block belongs to the relay's stream. When it is freed, kernels that read it on the default stream may
        # still be queued: torch then waits for them before it gives the block to another tensor of the relay.
        block.record_stream(torch.cuda.default_stream(self._device))
        return block

    def dense(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu" and tensor.device != self._device:
            raise OmniError("unsupported_type", f"a tensor on {tensor.device} cannot leave a process on {self._device}")
        try:
            return tensor.detach().contiguous()
        except RuntimeError as error:
            raise OmniError("device_failed", str(error)) from error

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._driver.copy(target, source, nbytes, self._stream.cuda_stream)

    def synchronize(self) -> None:
        self._driver.synchronize(self._stream.cuda_stream)
