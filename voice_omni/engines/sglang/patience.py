"""Prompts that are not urgent, and how long they wait for each other. No I/O."""

from __future__ import annotations

from collections.abc import Callable


class Patience:
    """Holds ids back until the one that came first has waited for ``seconds``."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        # Since when each has waited, the first one first.
        self._held: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether anything is held back."""
        return bool(self._held)

    @property
    def over(self) -> bool:
        """Whether what is held back has waited for long enough."""
        since = next(iter(self._held.values()), None)
        return since is not None and self._clock() >= since + self._seconds

    def hold(self, name: str) -> bool:
        """Hold it back, if there is any patience; whether there is."""
        if self._seconds:
            self._held.setdefault(name, self._clock())
        return bool(self._seconds)

    def drop(self, name: str) -> None:
        self._held.pop(name, None)

    def take(self) -> list[str]:
        """All that is held back, which then is no longer."""
        held, self._held = list(self._held), {}
        return held
