"""How far a stream of sound is ahead of the ear."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Playback:
    """Sound that is heard from the moment on when its first part was sent. ``began``: that moment, in seconds on the
    caller's clock; ``seconds``: how much has been sent."""

    began: float | None = None
    seconds: float = 0.0

    def send(self, seconds: float, now: float) -> None:
        if self.began is None:
            self.began = now
        self.seconds += seconds

    def lead(self, now: float) -> float:
        """Seconds that have been sent and not been heard; less than 0 while the ear waits."""
        return 0.0 if self.began is None else self.seconds - (now - self.began)
