"""A wake-up for whoever waits for a condition of shared state on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """``notify`` after a change; ``wait_until`` returns when its predicate holds. No change is missed.

    Those who wait look in the order in which they came, so that what there is goes to the one who came first.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}

    def notify(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait_until(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[future] = None
            try:
                await future
            finally:
                del self._waiting[future]
