"""Room in a receiver's registered buffer, for writers that wait for it in turn."""

from __future__ import annotations

import asyncio
from collections import deque

from voice_omni.proto.errors import OmniError
from voice_omni.relay.arena import Arena


class Room:
    """An :class:`~voice_omni.relay.arena.Arena` with waiters, served in order: so a large one gets its turn."""

    def __init__(self, size: int) -> None:
        self._arena = Arena(size)
        self._waiting: deque[tuple[int, asyncio.Future[int]]] = deque()
        self.closed = False

    async def take(self, nbytes: int) -> int:
        """An offset with room for ``nbytes``, which must be positive.

        Raises :class:`OmniError`: ``payload_too_large`` (more than the whole buffer), ``stage_died`` (closed, also
        while waiting).
        """
        if nbytes > self._arena.size:
            raise OmniError(
                "payload_too_large",
                f"{nbytes} bytes of tensors exceed the relay's buffer of {self._arena.size} bytes;"
                " raise limits.relay_bytes",
            )
        offset = self._arena.allocate(nbytes) if not self._waiting else None
        if offset is None:
            offset = await self._wait(nbytes)
        self.check_open()
        return offset

    def check_open(self) -> None:
        """Raises :class:`OmniError` ``stage_died`` once the room is closed."""
        if self.closed:
            raise OmniError("stage_died", "the receiver went away before its data was written", retryable=True)

    async def _wait(self, nbytes: int) -> int:
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
        """Raises KeyError for an offset that is not in use."""
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
        """Those who wait are told; nothing is granted any more."""
        self.closed = True
        while self._waiting:
            _, granted = self._waiting.popleft()
            if not granted.done():
                granted.set_exception(OmniError("stage_died", "the receiver went away", retryable=True))
