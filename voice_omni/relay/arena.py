"""Allocation inside a registered buffer. Pure: offsets in, offsets out."""

from __future__ import annotations

from bisect import insort


class Arena:
    """First fit over a sorted list of free ranges; neighbours join when freed. Frees come in any order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free: list[tuple[int, int]] = [(0, size)] if size else []
        self._used: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int | None:
        """An offset with room for ``nbytes``, or None while there is none. ``nbytes`` must be positive."""
        for index, (offset, length) in enumerate(self._free):
            if length >= nbytes:
                if length == nbytes:
                    del self._free[index]
                else:
                    self._free[index] = (offset + nbytes, length - nbytes)
                self._used[offset] = nbytes
                return offset
        return None

    def free(self, offset: int) -> None:
        """Give an allocation back. Raises KeyError for an offset that is not in use."""
        start, end = offset, offset + self._used.pop(offset)
        kept: list[tuple[int, int]] = []
        for other, length in self._free:
            if other + length == start:
                start = other
            elif other == end:
                end = other + length
            else:
                kept.append((other, length))
        insort(kept, (start, end - start))
        self._free = kept

    @property
    def in_use(self) -> int:
        return sum(self._used.values())
