"""The event channel of a call: messages wait until it is open, and there is a bound on how much may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from aiortc import RTCDataChannel

from voice_omni.proto.errors import OmniError


class EventChannel:
    """The first data channel that the caller opens. Clients call it ``oai-events``; the name decides nothing."""

    def __init__(self, max_queued_bytes: int, message: Callable[[str], None], opened: Callable[[], None]) -> None:
        self._max_queued = max_queued_bytes
        self._message = message
        self._opened = opened
        self._channel: RTCDataChannel | None = None
        self._waiting: deque[str] = deque()
        self._waiting_bytes = 0
        self._closed = False
        self.max_message_bytes = 0
        """The longest message that the caller takes; 0: no bound. Known from the offer."""

    @property
    def is_open(self) -> bool:
        return self._channel is not None and self._channel.readyState == "open"

    @property
    def queued_bytes(self) -> int:
        return self._waiting_bytes + (0 if self._channel is None else self._channel.bufferedAmount)

    def attach(self, channel: RTCDataChannel) -> None:
        """The caller has opened a channel. Further ones are left alone."""
        if self._channel is not None or self._closed:
            return
        self._channel = channel
        channel.on("message", self._received)
        while self._waiting:
            channel.send(self._waiting.popleft())
        self._waiting_bytes = 0
        self._opened()

    def send(self, text: str) -> None:
        if self._closed:
            return
        size = len(text.encode())
        if self.max_message_bytes and size > self.max_message_bytes:
            raise OmniError(
                "message_too_large",
                f"an event of {size} bytes; the caller's data channel takes at most {self.max_message_bytes}",
            )
        if self.queued_bytes + size > self._max_queued:
            raise OmniError("overloaded", "the caller does not read its data channel: too many events wait for it")
        if self._channel is None:
            self._waiting.append(text)
            self._waiting_bytes += size
        elif self._channel.readyState == "open":
            self._channel.send(text)

    def close(self) -> None:
        """Nothing is sent or received any more."""
        self._closed = True
        self._waiting.clear()
        self._waiting_bytes = 0

    def _received(self, message: str | bytes) -> None:
        if not self._closed:
            self._message(message if isinstance(message, str) else message.decode(errors="replace"))
