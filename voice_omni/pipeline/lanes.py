"""Order kept while work overlaps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Place(Generic[T]):
    """One reserved position in a lane."""

    __slots__ = ("filled", "item")

    def __init__(self) -> None:
        self.filled = False
        self.item: T | None = None


class Lane(Generic[T]):
    """Hands items on in the order in which their places were reserved, however late each one is filled.

    One lane exists for each request and edge, on the sender's side for writes into the relay and on the receiver's for
    reads out of it. An item of None is a place given up: the lane goes past it.
    """

    def __init__(self, sink: Callable[[T], None]) -> None:
        self._sink = sink
        self._places: deque[Place[T]] = deque()

    def reserve(self) -> Place[T]:
        place: Place[T] = Place()
        self._places.append(place)
        return place

    def fill(self, place: Place[T], item: T | None) -> None:
        place.item = item
        place.filled = True
        while self._places and self._places[0].filled:
            ready = self._places.popleft()
            if ready.item is not None:
                self._sink(ready.item)

    def pass_through(self, item: T) -> None:
        """An item that needs no work, behind what is already under way."""
        if self._places:
            self.fill(self.reserve(), item)
        else:
            self._sink(item)

    def __len__(self) -> int:
        return len(self._places)


class EmitWindow:
    """Turns credits of single edges into credits of emits.

    An emit may go to several targets; it is consumed when all of them have consumed it. At most ``size`` emits are
    under way.
    """

    def __init__(self, targets: tuple[str, ...]) -> None:
        self._pending: dict[str, deque[int]] = {target: deque() for target in targets}
        self._sent = 0
        self._settled = 0

    def sent(self, targets: tuple[str, ...]) -> int:
        """Note one emit to ``targets``; the emits that are settled by it at once (those with no target)."""
        for target in targets:
            self._pending[target].append(self._sent)
        self._sent += 1
        return self._settle()

    def consumed(self, target: str, count: int) -> int:
        """``target`` has consumed ``count`` chunks; the number of emits that are settled now and were not before."""
        pending = self._pending[target]
        for _ in range(min(count, len(pending))):
            pending.popleft()
        return self._settle()

    def _settle(self) -> int:
        oldest = min((pending[0] for pending in self._pending.values() if pending), default=self._sent)
        settled, self._settled = oldest - self._settled, oldest
        return settled


class Tombstones:
    """The ids of the requests that ended last; the oldest is forgotten first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: dict[str, None] = {}

    def add(self, request_id: str) -> None:
        self._ids.pop(request_id, None)
        self._ids[request_id] = None
        while len(self._ids) > self._capacity:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)
