"""Order, credits and memory of a stage's edges."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.pipeline.lanes import EmitWindow, Lane, Tombstones

# -- Lane --------------------------------------------------------------------------------------------------------------


@given(st.permutations(range(8)))
def test_items_leave_in_the_order_in_which_their_places_were_reserved(fill_order: Sequence[int]) -> None:
    left: list[int] = []
    lane = Lane(left.append)
    places = [lane.reserve() for _ in fill_order]
    for index in fill_order:
        lane.fill(places[index], index)
    assert left == sorted(fill_order)
    assert len(lane) == 0


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)))
def test_the_lane_goes_past_places_that_were_given_up(fill_order: Sequence[int], given_up: set[int]) -> None:
    left: list[int] = []
    lane = Lane(left.append)
    places = [lane.reserve() for _ in fill_order]
    for index in fill_order:
        lane.fill(places[index], None if index in given_up else index)
    assert left == [index for index in range(8) if index not in given_up]
    assert len(lane) == 0


@given(st.lists(st.sampled_from(("reserve", "pass", "fill oldest", "fill newest")), max_size=40))
def test_what_needs_no_work_waits_behind_what_does(steps: list[str]) -> None:
    left: list[int] = []
    lane = Lane(left.append)
    open_places = []
    entered = 0
    for step in steps:
        if step == "reserve":
            open_places.append((lane.reserve(), entered))
            entered += 1
        elif step == "pass":
            lane.pass_through(entered)
            entered += 1
        elif open_places:
            place, item = open_places.pop(0 if step == "fill oldest" else -1)
            lane.fill(place, item)
        first_missing = min((item for _, item in open_places), default=entered)
        assert left == list(range(first_missing)), "everything up to the first place that is still empty has left"
    assert (len(lane) == 0) == (not open_places)


def test_an_item_passes_straight_through_an_empty_lane() -> None:
    left: list[str] = []
    lane = Lane(left.append)
    lane.pass_through("now")
    assert left == ["now"]


def test_an_item_that_enters_while_another_leaves_keeps_its_turn() -> None:
    """A sink may put something into the same lane: it leaves after what was ready before it."""
    left: list[str] = []

    def sink(item: str) -> None:
        left.append(item)
        if item == "first":
            lane.pass_through("entered meanwhile")

    lane = Lane(sink)
    first, second = lane.reserve(), lane.reserve()
    lane.fill(second, "second")
    lane.fill(first, "first")
    assert left == ["first", "second", "entered meanwhile"]


# -- EmitWindow --------------------------------------------------------------------------------------------------------

TARGETS = ("talker", "client", "logger")
EMITS = st.tuples(st.just("sent"), st.sets(st.sampled_from(TARGETS)).map(lambda chosen: tuple(sorted(chosen))))
CONSUMPTIONS = st.tuples(st.just("consumed"), st.sampled_from(TARGETS), st.integers(0, 4))


class NaiveWindow:
    """Every emit with the set of those who have still to consume it; settled while it and all before it are done."""

    def __init__(self) -> None:
        self.emits: list[set[str]] = []
        self.settled = 0

    def sent(self, targets: tuple[str, ...]) -> int:
        self.emits.append(set(targets))
        return self._settle()

    def consumed(self, target: str, count: int) -> int:
        for waiting in [emit for emit in self.emits if target in emit][:count]:
            waiting.remove(target)
        return self._settle()

    def _settle(self) -> int:
        before = self.settled
        while self.settled < len(self.emits) and not self.emits[self.settled]:
            self.settled += 1
        return self.settled - before


@given(st.lists(EMITS | CONSUMPTIONS, max_size=60))
def test_an_emit_is_settled_when_all_its_targets_have_consumed_it(steps: list[tuple]) -> None:
    window, naive = EmitWindow(TARGETS), NaiveWindow()
    for name, *arguments in steps:
        assert getattr(window, name)(*arguments) == getattr(naive, name)(*arguments)


@given(st.lists(EMITS, max_size=30), st.permutations(TARGETS))
def test_every_emit_is_settled_once(emits: list[tuple[str, tuple[str, ...]]], order: Sequence[str]) -> None:
    window = EmitWindow(TARGETS)
    settled = sum(window.sent(targets) for _, targets in emits)
    settled += sum(window.consumed(target, len(emits)) for target in order)
    assert settled == len(emits)
    assert sum(window.consumed(target, 1) for target in TARGETS) == 0


def test_an_emit_without_targets_costs_no_credit() -> None:
    window = EmitWindow(("client",))
    assert window.sent(()) == 1


def test_the_slowest_target_sets_the_pace() -> None:
    window = EmitWindow(("talker", "client"))
    assert [window.sent(("talker", "client")) for _ in range(3)] == [0, 0, 0]
    assert window.consumed("talker", 3) == 0
    assert window.consumed("client", 1) == 1
    assert window.consumed("client", 2) == 2


# -- Tombstones --------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.integers(1, 5))
def test_the_ids_that_ended_last_are_remembered(ended: list[str], capacity: int) -> None:
    tombstones = Tombstones(capacity)
    for request_id in ended:
        tombstones.add(request_id)
    latest_first = list(dict.fromkeys(reversed(ended)))
    assert {request_id for request_id in "abcdefgh" if request_id in tombstones} == set(latest_first[:capacity])
    assert len(tombstones) == min(capacity, len(latest_first))


def test_the_oldest_is_forgotten_first() -> None:
    tombstones = Tombstones(2)
    for request_id in ("old", "middle", "old", "new"):
        tombstones.add(request_id)
    assert "middle" not in tombstones
    assert "old" in tombstones


@pytest.mark.parametrize("request_id", ["", "never"])
def test_an_id_that_never_ended_is_not_remembered(request_id: str) -> None:
    assert request_id not in Tombstones(2)
