"""What a row finds in its slot from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from voice_omni.engines.interface import Sampling
from voice_omni.engines.sglang.frames.slots import CONDITIONS, Arrival, Fed, Slots

WIDTH = 4


def numbered(first: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Conditions that tell their numbers."""
    return np.arange(first, first + count, dtype=np.float32)[:, None].repeat(WIDTH, axis=1)


@pytest.fixture
def slots() -> Slots:
    return Slots(4, WIDTH, vocabulary=10, books=2)


def begin(slots: Slots, slot: int, said: tuple[int, ...] = ()) -> None:
    first, padding = np.full(WIDTH, 1000, np.float32), np.full(WIDTH, -1, np.float32)
    sampling = Sampling(temperature=0.5, top_k=3, top_p=0.7, seed=2**64 - 1)
    slots.begin([Arrival(slot, first, padding, sampling, said)])


def step(slots: Slots, *at: int) -> list[float]:
    """What these read, one number for each; they write a frame that is read as nothing."""
    rows = slots.inputs(torch.tensor(at))
    slots.advance(torch.tensor(at), torch.ones(len(at), 2, dtype=torch.int64), torch.zeros(len(at), WIDTH))
    return rows[:, 0].tolist()


def test_the_first_step_reads_the_prompts_last_row_and_the_others_a_condition_each(slots: Slots) -> None:
    begin(slots, 2)
    slots.feed([Fed(2, 0, numbered(0, 3))])
    assert [step(slots, 2)[0] for _ in range(4)] == [1000, 0, 1, 2]


def test_padding_follows_the_conditions(slots: Slots) -> None:
    begin(slots, 1)
    slots.feed([Fed(1, 0, numbered(5, 1))])
    assert [step(slots, 1)[0] for _ in range(4)] == [1000, 5, -1, -1]


def test_rows_go_each_at_its_own_pace(slots: Slots) -> None:
    begin(slots, 1)
    slots.feed([Fed(1, 0, numbered(10, 5))])
    assert step(slots, 1) == [1000]
    begin(slots, 3)
    assert step(slots, 3, 1) == [1000, 10]
    assert step(slots, 1, 3) == [11, -1]


def test_more_conditions_than_there_are_places_go_round(slots: Slots) -> None:
    begin(slots, 1)
    written = 0
    read = []
    for number in range(3 * CONDITIONS):
        if number % 50 == 0:
            slots.feed([Fed(1, written, numbered(written, 50))])
            written += 50
        read.append(step(slots, 1)[0])
    assert read == [1000, *range(3 * CONDITIONS - 1)]


def test_a_row_that_goes_on_has_said_what_it_said(slots: Slots) -> None:
    begin(slots, 1)
    step(slots, 1)
    begin(slots, 1, said=(4, 7, 4))
    assert slots.step[1] == 3
    assert slots.said[1].nonzero().flatten().tolist() == [4, 7]
    slots.feed([Fed(1, 2, numbered(2, 1))])
    assert step(slots, 1) == [1002]


def test_a_row_that_moves_in_finds_nothing_of_the_one_before(slots: Slots) -> None:
    begin(slots, 1, said=(4,))
    slots.feed([Fed(1, 0, numbered(0, 9))])
    begin(slots, 1)
    assert not slots.said[1].any()
    assert [step(slots, 1)[0] for _ in range(2)] == [1000, -1]
    assert slots.seed[1] == -1


class Launches(TorchDispatchMode):
    """Counts what is asked of the device."""

    count = 0

    def __torch_dispatch__(self, called: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return called(*args, **(kwargs or {}))


def test_many_rows_cost_no_more_launches_than_one() -> None:
    def launches(count: int) -> int:
        slots, row = Slots(40, WIDTH, vocabulary=10, books=2), np.ones(WIDTH, np.float32)
        with Launches() as launches:
            slots.begin([Arrival(slot, row, row, Sampling(), said=(slot % 10, 3)) for slot in range(count)])
            slots.feed([Fed(slot, 0, numbered(slot, 3)) for slot in range(count)])
        assert slots.written.tolist() == [3] * count + [0] * (40 - count)
        return launches.count

    assert launches(40) == launches(2)
    assert launches(0) == 0


def test_rows_that_move_in_together_each_find_their_own() -> None:
    slots = Slots(4, WIDTH, vocabulary=10, books=2)
    values = {2: (5.0, Sampling(temperature=0.5, top_k=3, seed=7)), 1: (6.0, Sampling(top_p=0.7, seed=2**64 - 1))}
    slots.begin(
        [
            Arrival(slot, np.full(WIDTH, first, np.float32), np.full(WIDTH, -slot, np.float32), sampling, (slot,))
            for slot, (first, sampling) in values.items()
        ]
    )
    slots.feed([Fed(2, 1, numbered(20, 2)), Fed(1, 1, numbered(10, 1))])
    assert slots.rows[:, 0].tolist() == [0, 6, 5, 0]
    assert slots.seed.tolist() == [0, -1, 7, 0]
    assert slots.said.nonzero().tolist() == [[1, 1], [2, 2]]
    for slot, (_, sampling) in values.items():
        assert float(slots.temperature[slot]) == pytest.approx(sampling.temperature)
        assert float(slots.top_p[slot]) == pytest.approx(sampling.top_p)
        assert int(slots.top_k[slot]) == sampling.top_k
    assert [step(slots, 1, 2) for _ in range(3)][1:] == [[10, 20], [-1, 21]]


class Copies(TorchDispatchMode):
    """Counts what is copied into single elements."""

    count = 0

    def __torch_dispatch__(self, called: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += called is torch.ops.aten.copy_.default and args[0].dim() == 0
        return called(*args, **(kwargs or {}))


def test_no_number_is_copied_on_its_own(slots: Slots) -> None:
    """A copy from pageable memory waits until the device has computed all that it has been given. A fill does not."""
    row = np.ones(4, np.float32)
    with Copies() as copies:
        slots.begin([Arrival(1, row, row, Sampling(seed=3, temperature=0.5, top_k=4), said=(2,))])
        slots.feed([Fed(1, 0, np.ones((2, 4), np.float32))])
    assert copies.count == 0
    assert (int(slots.seed[1]), int(slots.step[1]), int(slots.written[1])) == (3, 1, 2)
    with Copies() as copies:
        slots.written[1] = 3
    assert copies.count == 1, "this is how it would be seen"
