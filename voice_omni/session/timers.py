"""Things to do later, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """One session's timers on the event loop. Setting one again under the same name replaces it."""

    def __init__(self) -> None:
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._handles

    def set(self, name: str, delay: float, act: Callable[[], None]) -> None:
        """Call ``act`` in ``delay`` seconds."""
        self.cancel(name)

        def fire() -> None:
            del self._handles[name]
            act()

        self._handles[name] = asyncio.get_running_loop().call_later(delay, fire)

    def cancel(self, name: str) -> None:
        if (handle := self._handles.pop(name, None)) is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        for name in list(self._handles):
            self.cancel(name)
