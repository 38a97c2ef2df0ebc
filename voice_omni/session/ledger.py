"""How much of each answer has been played."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Stretch:
    item_id: str
    starts: float
    ends: float


class PlaybackLedger:
    """Which sound is being played at which moment, as far as the sender can know. Seconds on one monotonic clock."""

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []

    def sent(self, item_id: str, starts: float, ends: float, now: float) -> None:
        """Sound of ``item_id`` will be played from ``starts`` to ``ends``. Items that have been played are let go."""
        unplayed = {stretch.item_id for stretch in self._stretches if stretch.ends > now}
        self._stretches = [stretch for stretch in self._stretches if stretch.item_id in unplayed | {item_id}]
        self._stretches.append(_Stretch(item_id, starts, ends))

    def audible(self, since: float, now: float) -> set[str]:
        """The items of which something is or was played between ``since`` and ``now``."""
        return {each.item_id for each in self._stretches if each.ends > since and each.starts <= now}

    def cut(self, now: float) -> dict[str, float]:
        """Playback stops. Returns the milliseconds that were heard of each item that was not played to its end."""
        unplayed = {stretch.item_id: 0.0 for stretch in self._stretches if stretch.ends > now}
        for stretch in self._stretches:
            if stretch.item_id in unplayed:
                unplayed[stretch.item_id] += max(0.0, min(stretch.ends, now) - stretch.starts) * 1000
        self._stretches.clear()
        return unplayed
