"""What the device relay asks of an accelerator's driver."""

from __future__ import annotations

from typing import Protocol

from voice_omni.proto.tensors import Tensor


class DeviceMemory(Protocol):
    """Memory of one device that other processes can map.

    All calls come from one thread, the relay's, and may wait for the device. Whatever the driver refuses raises
    :class:`~voice_omni.proto.errors.OmniError` ``device_failed``.
    """

    def start(self) -> None:
        """Come up on the calling thread. Raises also ``missing_device`` where there is no such device."""
        ...

    def stop(self) -> None: ...

    def allocate(self, nbytes: int) -> int:
        """The address of new memory that may be exported."""
        ...

    def free(self, address: int) -> None: ...

    def export(self, address: int) -> bytes:
        """What another process opens, to map what was allocated at ``address``."""
        ...

    def open(self, handle: bytes) -> int:
        """Map another process's memory, also that of another device; its address here.

        Raises also ``no_peer_access``: this device cannot reach that one.
        """
        ...

    def close(self, address: int) -> None:
        """Give up a mapping."""
        ...

    def empty(self, nbytes: int) -> Tensor:
        """A uint8 tensor ``[nbytes]`` on the device. It may be used on the device's default stream at once."""
        ...

    def dense(self, tensor: Tensor) -> Tensor:
        """The tensor, contiguous, where :meth:`copy` may read it. Raises also ``unsupported_type``: it lies on another
        device."""
        ...

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy between addresses that were given out here or belong to tensors of the device."""
        ...

    def synchronize(self) -> None:
        """Returns when everything queued is done."""
        ...
