"""Draws for whole batches are those of one row at a time."""

from __future__ import annotations

import random

import pytest
import torch

from voice_omni.engines import torch_sampling
from voice_omni.engines.interface import Sampling
from voice_omni.engines.sglang.frames.draws import Chances, draw, penalised, uniform

SIZE = 40


def test_chances_depend_on_seed_step_and_codebook_as_they_do_elsewhere() -> None:
    dice = random.Random(1)
    seeds = [0, 1, -1, 2**63 - 1, -(2**63), *(dice.randrange(-(2**63), 2**63) for _ in range(50))]
    steps = [dice.randrange(5000) for _ in seeds]
    for book in (0, 1, 15):
        drawn = uniform(torch.tensor(seeds), torch.tensor(steps), book)
        assert drawn.tolist() == [
            torch_sampling.uniform(seed, step, book) for seed, step in zip(seeds, steps, strict=True)
        ]


@pytest.mark.parametrize("part", range(20))
def test_each_row_draws_what_it_would_draw_alone(part: int) -> None:
    dice = random.Random(part)
    generator = torch.Generator().manual_seed(part)
    rows = [
        Sampling(
            temperature=dice.choice([0.0, 0.3, 0.9, 2.0]),
            top_k=dice.choice([0, 1, 2, 5, SIZE, 3 * SIZE]),
            top_p=dice.choice([1.0, 0.8, 0.1, 1e-6]),
            repetition_penalty=dice.choice([1.0, 1.05, 1.7]),
            seed=dice.randrange(2**40),
        )
        for _ in range(30)
    ]
    logits = torch.randn(len(rows), SIZE, generator=generator) * 4
    said = [dice.sample(range(SIZE), dice.randrange(SIZE)) for _ in rows]
    marks = torch.zeros(len(rows), SIZE, dtype=torch.bool)
    for mark, tokens in zip(marks, said, strict=True):
        mark[tokens] = True
    chances = uniform(torch.tensor([row.seed for row in rows]), torch.full((len(rows),), 3), 0)
    how = Chances(
        torch.tensor([row.temperature for row in rows]),
        torch.tensor([row.top_k for row in rows]),
        torch.tensor([row.top_p for row in rows]),
    )
    penalty = torch.tensor([row.repetition_penalty for row in rows])
    drawn = draw(penalised(logits, marks, penalty), chances, how)
    assert drawn.tolist() == [
        torch_sampling.choose(score, tokens, row, float(chance))
        for score, tokens, row, chance in zip(logits, said, rows, chances, strict=True)
    ]


def test_a_suppressed_code_is_not_drawn_however_hot_the_row() -> None:
    logits = torch.full((1, SIZE), -torch.inf)
    logits[0, 7] = -1000.0
    how = Chances(torch.tensor([2.0]), torch.tensor([0]), torch.tensor([1.0]))
    for chance in (0.0, 0.5, 1 - 2**-53):
        assert draw(logits, torch.tensor([chance], dtype=torch.float64), how).tolist() == [7]
