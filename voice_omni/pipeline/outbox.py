"""From a scheduler's thread to the stage's event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from voice_omni.scheduling.interface import Outgoing


class LoopOutbox:
    """Wakes the loop once for a run of messages and hands them on there, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: Callable[[Outgoing], None]) -> None:
        self._loop = loop
        self._sink = sink
        self._messages: deque[Outgoing] = deque()
        self._woken = False

    def put(self, message: Outgoing) -> None:
        self._messages.append(message)
        # Cleared by the loop before it looks at the queue, so a message is never left behind unseen.
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._woken = False
        try:
            while self._messages:
                self._sink(self._messages.popleft())
        finally:
            # Also when the sink raises: nothing else would wake the loop for what is left.
            if self._messages and not self._woken:
                self._woken = True
                self._loop.call_soon(self._drain)

    def __len__(self) -> int:
        return len(self._messages)
