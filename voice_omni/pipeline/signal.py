"""A wake-up for whoever waits for a condition of shared state on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """``notify`` after a change; ``wait_until`` returns when its predicate holds. No change is missed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait_until(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)
