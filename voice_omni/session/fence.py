"""The epoch: which generation of sound may still be sent."""

from __future__ import annotations


class EpochFence:
    """A counter whose only question is whether something belongs to now.

    Everything that is made for a reply carries the epoch in which the reply began. Bumping it makes all of that stale
    in one step, wherever it waits; whoever sends compares at the moment of sending, so that no chunk which was
    already on its way when a person began to speak comes out after.
    """

    def __init__(self) -> None:
        self.epoch = 0

    def bump(self) -> None:
        self.epoch += 1

    def current(self, epoch: int | None) -> bool:
        """``None`` marks what no interruption makes stale."""
        return epoch is None or epoch == self.epoch
