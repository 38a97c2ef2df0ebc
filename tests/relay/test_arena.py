"""Room inside one registered buffer: never given twice, never lost, whole again when all of it is given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from voice_omni.relay.arena import Arena

SIZE = 64


class ArenaMachine(RuleBasedStateMachine):
    """The model is a map of every byte to the allocation that owns it."""

    allocations = Bundle("allocations")

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(SIZE)
        self.owner: list[int | None] = [None] * SIZE

    @rule(target=allocations, nbytes=st.integers(1, SIZE + 1))
    def allocate(self, nbytes: int) -> int | None:
        offset = self.arena.allocate(nbytes)
        gap = self._first_gap(nbytes)
        assert offset == gap, "the first gap that is large enough"
        if offset is not None:
            self.owner[offset : offset + nbytes] = [offset] * nbytes
        return offset

    @rule(offset=consumes(allocations))
    def free(self, offset: int | None) -> None:
        if offset is not None:
            self.arena.free(offset)
            self.owner = [None if owner == offset else owner for owner in self.owner]

    @rule(offset=st.integers(0, SIZE))
    def free_what_is_not_in_use(self, offset: int) -> None:
        if offset not in self.owner:
            with pytest.raises(KeyError):
                self.arena.free(offset)

    @invariant()
    def counts_what_is_in_use(self) -> None:
        assert self.arena.in_use == sum(owner is not None for owner in self.owner)

    def _first_gap(self, nbytes: int) -> int | None:
        for start in range(SIZE - nbytes + 1):
            if all(owner is None for owner in self.owner[start : start + nbytes]):
                return start
        return None

    def teardown(self) -> None:
        for offset in {owner for owner in self.owner if owner is not None}:
            self.arena.free(offset)
        assert self.arena.in_use == 0
        assert self.arena.allocate(SIZE) == 0, "one range again"


TestArena = ArenaMachine.TestCase


@given(order=st.permutations(range(8)))
def test_neighbours_join_in_whatever_order_they_are_freed(order: list[int]) -> None:
    arena = Arena(SIZE)
    offsets = [arena.allocate(8) for _ in range(8)]
    assert offsets == list(range(0, SIZE, 8))
    assert arena.allocate(1) is None
    for index in order:
        arena.free(index * 8)
    assert arena.allocate(SIZE) == 0


def test_an_empty_buffer_has_no_room() -> None:
    arena = Arena(0)
    assert arena.allocate(1) is None
    assert arena.in_use == 0


def test_what_is_freed_twice_is_an_error() -> None:
    arena = Arena(SIZE)
    offset = arena.allocate(8)
    assert offset is not None
    arena.free(offset)
    with pytest.raises(KeyError):
        arena.free(offset)
