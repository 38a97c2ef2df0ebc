"""A draw's kernel chooses what plain torch chooses for the same row, and looks up what is read of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.triton import DEVICE
from voice_omni.engines.interface import Sampling
from voice_omni.engines.sglang.frames import kernels
from voice_omni.engines.sglang.frames.draws import Chances, draw, penalised, uniform
from voice_omni.engines.sglang.frames.slots import Arrival, Slots

BOOKS = 4
FIXED_TOP_K, FIXED_TOP_P = 10, 0.8
HIGHEST = 1 - 2.0**-24
"""The highest chance that a kernel knows."""

GREEDY = Sampling()
KINDS = [
    GREEDY,
    Sampling(temperature=0.9, top_k=5, top_p=0.7, seed=-1),
    Sampling(temperature=0.3, top_k=50, top_p=0.9, repetition_penalty=1.05, seed=2**63 - 1),
    Sampling(repetition_penalty=1.7),
    Sampling(temperature=2.0, seed=-(2**63)),
    Sampling(temperature=2.0, top_k=7, seed=7),
    Sampling(temperature=0.9, top_k=1, top_p=0.9, seed=1),
    Sampling(temperature=2.0, top_p=1e-6, seed=2**40 + 3),
    Sampling(temperature=2.0, top_p=0.4, repetition_penalty=1.7, seed=3),
]
"""The row in each slot; slot 0 is that of the rows that fill up a batch."""
SLOTS = len(KINDS)


@dataclass(frozen=True)
class Draw:
    """``at``: slots; ``logits`` float32 ``[rows, vocabulary]``; ``suppressed`` float32 ``[vocabulary]``."""

    slots: Slots
    at: Tensor
    logits: Tensor
    suppressed: Tensor
    table: Tensor
    book: int = 0
    top_k: int = FIXED_TOP_K
    top_p: float = FIXED_TOP_P
    few: int = 8

    def expected(self) -> list[int]:
        chances = uniform(self.slots.seed[self.at], self.slots.step[self.at], self.book)
        how = self.slots.chances(self.at)
        if self.book:
            rows = len(self.at)
            how = Chances(
                (how.temperature > 0).float(), torch.full((rows,), self.top_k), torch.full((rows,), self.top_p)
            )
            return draw(self.logits, chances, how).tolist()
        logits = penalised(self.logits, self.slots.said[self.at], self.slots.penalty[self.at]) + self.suppressed
        return draw(logits, chances, how).tolist()

    def drawn(self) -> list[int]:
        rows, width = len(self.at), self.table.shape[1]
        return self.written(torch.empty(rows, width), torch.empty(rows, 2, width, dtype=self.table.dtype))

    def written(self, sums: Tensor, read: Tensor) -> list[int]:
        """The codes. What is read of them is added to ``sums`` ``[rows, width]``, and in ``read`` ``[rows, 2, width]``
        behind what is there."""
        rows, vocabulary = self.logits.shape
        width = self.table.shape[1]
        codes = torch.full((rows, BOOKS), -1, device=DEVICE)
        few = min(self.few, _power(vocabulary))
        added, there = sums.to(DEVICE), read.to(DEVICE)
        slots = self.slots
        known = (slots.seed, slots.step, slots.temperature, slots.top_k, slots.top_p)
        kernels.drawing[(rows,)](
            self.logits.to(DEVICE), slots.said.to(DEVICE), slots.penalty.to(DEVICE), self.suppressed.to(DEVICE),
            *(each.to(DEVICE) for each in known), codes, self.table.to(DEVICE), there[:, 1], added, self.at.to(DEVICE),
            vocabulary, self.book, width, BOOKS, there.stride(0), self.top_k, self.top_p,
            first=self.book == 0, short=self.book > 0 and 0 < self.top_k <= few, size=_power(vocabulary), few=few,
            span=_power(width), num_warps=4,
        )  # fmt: skip
        sums.copy_(added)
        read.copy_(there)
        others = [book for book in range(BOOKS) if book != self.book]
        assert (codes[:, others] == -1).all()
        return codes[:, self.book].tolist()


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def made(vocabulary: int, rows: int = SLOTS + 1, seed: int = 0, width: int = 5) -> Draw:
    """Rows of every kind out of order, two of which fill up the batch. What is suppressed is not at the end."""
    generator = torch.Generator().manual_seed(seed)
    slots = Slots(SLOTS, width, vocabulary, BOOKS)
    nothing = np.zeros(width, np.float32)
    for slot, kind in enumerate(KINDS):
        slots.begin([Arrival(slot, nothing, nothing, kind, said=tuple(range(slot % 3, vocabulary, 3)))])
    slots.step.copy_(torch.randint(5000, (SLOTS,), generator=generator))
    suppressed = torch.zeros(vocabulary)
    suppressed[vocabulary // 2 : vocabulary - 1] = -torch.inf
    return Draw(
        slots,
        at=torch.tensor([0, *torch.randperm(SLOTS, generator=generator)][:rows]),
        logits=torch.randn(rows, vocabulary, generator=generator) * 4,
        suppressed=suppressed,
        table=torch.randn(vocabulary, width, generator=generator),
    )


@pytest.mark.parametrize("vocabulary", [2, 16, 37])
def test_a_first_code_is_drawn_as_its_row_says(vocabulary: int) -> None:
    given = made(vocabulary)
    assert given.drawn() == given.expected()


@pytest.mark.parametrize(
    ("book", "top_k", "top_p"), [(1, 10, 0.8), (2, 0, 1.0), (1, 1, 1.0), (1, 8, 1.0), (3, 0, 0.3), (3, 99, 1e-9)]
)
def test_a_residual_code_is_drawn_as_the_head_says(book: int, top_k: int, top_p: float) -> None:
    """Whatever is suppressed or has been said of first codes."""
    given = replace(made(15, seed=book), book=book, top_k=top_k, top_p=top_p)
    assert given.drawn() == given.expected()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 32, 45])
def test_what_is_read_of_a_code_is_added_up_over_the_books(width: int, dtype: torch.dtype) -> None:
    given = made(7, rows=3, width=width)
    given = replace(given, table=given.table.to(dtype))
    # Nobody clears the sums: the first code's row replaces what is there.
    sums = torch.full((3, width), torch.nan)
    expected = torch.zeros(3, width)
    for book in (0, 1):
        read = torch.full((3, 2, width), 77.0, dtype=dtype)
        rows = given.table[replace(given, book=book).written(sums, read)]
        expected += rows.float()
        assert torch.equal(read[:, 1], rows)
        assert (read[:, 0] == 77).all()
        assert torch.equal(sums, expected)


def seed_of(state: int, step: int, book: int) -> int:
    """The seed whose draw's last 64 bits are ``state``: every part of SplitMix64 can be undone."""
    for part in (book, step, 0):
        state = ((_unmixed(state) - 0x9E3779B97F4A7C15) % 2**64) ^ part
    return (state + 2**63) % 2**64 - 2**63


def _unmixed(value: int) -> int:
    value = _unshifted(value, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    value = _unshifted(value, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return _unshifted(value, 30)


def _unshifted(value: int, bits: int) -> int:
    """What ``value`` was before ``value ^= value >> bits``."""
    whole = value
    for shift in range(bits, 64, bits):
        whole ^= value >> shift
    return whole


@pytest.mark.parametrize("book", [0, 3])
@pytest.mark.parametrize("chance", [0.0, HIGHEST])
def test_the_ends_of_chance_choose_one_of_the_candidates(chance: float, book: int) -> None:
    """Never a code that is suppressed, ruled out, or no code at all, whatever the sum of all is rounded to."""
    given = replace(made(15, seed=8), book=book, top_k=6, top_p=1.0)
    given.slots.temperature.fill_(2.0)
    given.slots.top_p.fill_(1.0)
    given.slots.penalty.fill_(1.0)
    for slot in range(SLOTS):
        step = int(given.slots.step[slot])
        given.slots.seed[slot] = seed_of(int(chance * 2**24) << 40, step, book)
        assert uniform(given.slots.seed[slot], given.slots.step[slot], book) == chance
    scores = given.logits if book else given.logits + given.suppressed
    ranks = scores.argsort(dim=-1, descending=True)
    places = [order.tolist().index(code) for order, code in zip(ranks, given.drawn(), strict=True)]
    if not chance:
        assert set(places) == {0}
        return
    counts = given.slots.top_k[given.at].tolist() if book == 0 else [given.top_k] * len(given.at)
    possible = 8 if book == 0 else 15
    assert places == [min(count or possible, possible) - 1 for count in counts]


def test_of_equal_scores_the_first_is_the_likeliest() -> None:
    """Of negative ones and zeros too, whose bits are not in the order of numbers."""
    logits = torch.tensor([[-3.0, -1.0, -1.0, -2.0, -1.0, -5.0, -1.0], [0.0, -1.0, 0.0, 1e-30, 1e-30, -1e-30, 0.0]])
    given = replace(made(7), at=torch.tensor([1, 2]), logits=logits, suppressed=torch.zeros(7))
    given.slots.temperature[1:3] = 0.0
    given.slots.penalty[1:3] = 1.0
    assert given.drawn() == [1, 3]
    given.slots.temperature[1:3] = 1.0
    given.slots.top_k[1:3] = 2
    given.slots.top_p[1:3] = 1.0
    for chance, codes in ((0.0, [1, 3]), (HIGHEST, [2, 4])):
        for slot in (1, 2):
            given.slots.seed[slot] = seed_of(int(chance * 2**24) << 40, int(given.slots.step[slot]), 0)
        assert given.drawn() == codes


def test_a_row_with_one_possible_code_takes_it() -> None:
    given = made(15)
    given.suppressed[:] = -torch.inf
    given.suppressed[7] = 0.0
    given.logits[:, 7] = -1000.0
    assert given.drawn() == [7] * len(given.at)
