"""An event loop whose clock jumps to the next timer, so that a minute of waiting takes no time and is never late."""

from __future__ import annotations

import asyncio
import functools
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everything waits and no timer is set: a deadlock")
            self.now += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    @property
    def _clock_resolution(self) -> float:
        """No timer fires early. A real loop lets those fire that are due within its clock's resolution; where time
        moves only while everything waits, two tasks that wait for less than that would wake each other for ever."""
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        pass


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test function on a :class:`VirtualTimeLoop`."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
