"""What waits to be sent to one client, and the back-pressure of a client that reads slowly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

import msgspec

from voice_omni.realtime.events import ServerEvent
from voice_omni.session.fence import EpochFence

ROOM_BYTES: Final = 64 * 1024
"""Content is only made while less than this waits: about a second of sound as base64."""
FULL_BYTES: Final = 1024 * 1024
"""Nothing more is read from a client for whom this much waits."""


@dataclass(frozen=True, slots=True)
class Close:
    """The end of a session, as WebSocket close code and reason. ``told``: an event has said so already."""

    code: int
    reason: str
    told: bool = False


@dataclass(frozen=True, slots=True)
class BinaryFrame:
    """A delta of sound for a client that takes it as bytes: the event without it as JSON, a newline, the bytes."""

    data: bytes


class Outbox:
    """Encoded events in order. One producer side, the session; one consumer, the transport's sender.

    Events are never refused: they are bounded because their makers wait, content for :meth:`room` and the answers to
    a client's events for :meth:`drained`, before there are more.
    """

    def __init__(
        self,
        fence: EpochFence,
        translate: Callable[[ServerEvent], Iterable[ServerEvent]] = lambda event: (event,),
        *,
        binary: bool = False,
    ) -> None:
        """``translate``: into the client's dialect. ``binary``: sound goes out as :class:`BinaryFrame`."""
        self._fence = fence
        self._translate = translate
        self._binary = binary
        self._waiting: deque[tuple[int | None, bytes | BinaryFrame]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._close: Close | None = None
        self._encoder = msgspec.json.Encoder()

    def put(self, events: Iterable[ServerEvent], epoch: int | None = None) -> None:
        """``epoch``: the one outside which deltas are not to be sent any more; None: always send them.

        What frames the deltas is always sent: a client that was told of a beginning is told of the end.
        """
        if self._close is not None:
            return
        for event in chain.from_iterable(map(self._translate, events)):
            frame = self._encode(event)
            self._waiting.append((epoch if event["type"].endswith(".delta") else None, frame))
            self._bytes += _size(frame)
        self._notify()

    def drop_stale(self) -> None:
        """Let go of what the fence has made stale."""
        self._waiting = deque(entry for entry in self._waiting if self._fence.current(entry[0]))
        self._bytes = sum(_size(frame) for _, frame in self._waiting)
        self._notify()

    def close(self, close: Close) -> None:
        """What waits is still sent, then the session ends."""
        self._close = self._close or close
        self._notify()

    async def room(self) -> None:
        """Wait until content may be made."""
        while self._bytes >= ROOM_BYTES:
            await self._changed.wait()

    async def drained(self) -> None:
        """Wait until the client has taken enough to be listened to again."""
        while self._bytes >= FULL_BYTES:
            await self._changed.wait()

    async def get(self) -> bytes | BinaryFrame | Close:
        """The next event that is not stale, as JSON, at the moment when it can be sent."""
        while True:
            while self._waiting:
                epoch, frame = self._waiting.popleft()
                self._bytes -= _size(frame)
                self._notify()
                if self._fence.current(epoch):
                    return frame
            if self._close is not None:
                return self._close
            await self._changed.wait()

    def _encode(self, event: ServerEvent) -> bytes | BinaryFrame:
        sound = event.get("delta")
        if not self._binary or not isinstance(sound, bytes):
            return self._encoder.encode(event)  # bytes become base64
        header = self._encoder.encode({name: value for name, value in event.items() if name != "delta"})
        return BinaryFrame(header + b"\n" + sound)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _size(frame: bytes | BinaryFrame) -> int:
    return len(frame.data if isinstance(frame, BinaryFrame) else frame)
