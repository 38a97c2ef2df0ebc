"""The two halves of a relay between one sender and one receiver.

The receiver registers a buffer and tells its descriptor; the sender owns the allocation inside it, writes without
asking, names the place in a control message, and may use the place again when the receiver says that it has read it.
Shared memory, CUDA IPC and RDMA writes all fit. A relay carries numpy arrays, or torch tensors of a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from voice_omni.proto.messages import RelayRef


class Inbound(Protocol):
    """The receiver's half: a buffer registered for one sender."""

    descriptor: bytes

    async def read(self, ref: RelayRef) -> Any:
        """Copy out what was written: an array or a tensor, uint8 ``[ref.nbytes]``. The place may be freed after it
        returns.

        Raises :class:`~voice_omni.proto.errors.OmniError` ``stage_died``: the link was closed, also while reading.
        """
        ...

    def close(self) -> None: ...


class Outbound(Protocol):
    """The sender's half."""

    async def write(self, arrays: Sequence[Any]) -> RelayRef:
        """Write C-contiguous arrays, or tensors, one after another, each aligned; waits in turn for room.

        Raises :class:`~voice_omni.proto.errors.OmniError`: ``payload_too_large`` (more than the whole buffer),
        ``stage_died`` (the link was closed while waiting).
        """
        ...

    def free(self, offset: int) -> None:
        """The receiver has read what lies at ``offset``."""
        ...

    @property
    def in_use(self) -> int:
        """Bytes written and not freed yet."""
        ...

    def close(self) -> None: ...
