"""Bodies across one link: arrays through host memory, device tensors through device memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from numpy.typing import NDArray

from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Body, Free
from voice_omni.proto.payload import Data
from voice_omni.proto.tensors import to_host
from voice_omni.relay.interface import Inbound, Outbound

Arrays = Sequence[NDArray[Any]]


class Sender:
    """``device``: None where the receiver takes no device tensors; an error where it does and they cannot reach it.

    Arrays of a body up to ``inline_bytes`` together are not written: they ride behind the message.
    """

    def __init__(self, host: Outbound, device: Outbound | OmniError | None, inline_bytes: int) -> None:
        self._host = host
        self._device = device
        self._inline_bytes = inline_bytes

    async def place(self, data: Data) -> tuple[Body, Arrays]:
        """Write a tree's tensors; what to send, and the arrays to send behind it.

        Raises :class:`OmniError` as :meth:`~voice_omni.relay.interface.Outbound.write`, and ``unsupported_type``.
        """
        body, arrays, tensors = codec.pack(data)
        if not tensors:
            return await self._place_arrays(body, arrays)
        if self._device is None:
            return await self.place(await asyncio.to_thread(to_host, data))
        if isinstance(self._device, OmniError):
            raise self._device
        ref = await self._device.write(tensors)
        try:
            return await self._place_arrays(msgspec.structs.replace(body, tensors_ref=ref), arrays)
        except BaseException:
            self._device.free(ref.offset)
            raise

    async def _place_arrays(self, body: Body, arrays: Arrays) -> tuple[Body, Arrays]:
        if codec.packed_size(arrays) <= self._inline_bytes:
            return body, arrays
        return msgspec.structs.replace(body, ref=await self._host.write(arrays)), ()

    def free(self, message: Free) -> None:
        """The receiver has read what lies at these offsets."""
        for offset in message.offsets:
            self._host.free(offset)
        if isinstance(self._device, OmniError) or self._device is None:
            return
        for offset in message.device_offsets:
            self._device.free(offset)

    @property
    def in_use(self) -> int:
        """Bytes written and not freed yet."""
        return sum(outbound.in_use for outbound in self._outbounds())

    def close(self) -> None:
        for outbound in self._outbounds():
            outbound.close()

    def _outbounds(self) -> list[Outbound]:
        return [self._host] if isinstance(self._device, OmniError | None) else [self._host, self._device]


class Receiver:
    """``device``: None where the sender has no device, or sends no tensors of it."""

    def __init__(self, host: Inbound, device: Inbound | None) -> None:
        self._host = host
        self._device = device
        self.descriptor = host.descriptor
        self.device_descriptor = b"" if device is None else device.descriptor

    async def read(self, body: Body, arrays: Arrays) -> Data:
        """The tree. ``arrays``: what came behind the message. Raises :class:`OmniError`: ``stage_died``,
        ``protocol_error``."""
        if body.ref is not None:
            arrays = codec.split(body, await self._host.read(body.ref))
        block = None
        if body.tensors_ref is not None and self._device is not None:
            block = await self._device.read(body.tensors_ref)
        return codec.unpack(body, arrays, block)

    def close(self) -> None:
        self._host.close()
        if self._device is not None:
            self._device.close()
