from __future__ import annotations

import torch

from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_sampling import choose, uniform

LOGITS = torch.log(torch.tensor([0.3, 0.5, 0.05, 0.15]))


def drawn(sampling: Sampling, tokens: tuple[int, ...] = ()) -> list[int]:
    """How often each token is drawn, of 2000 times."""
    counts = [0, 0, 0, 0]
    for step in range(2000):
        counts[choose(LOGITS, tokens, sampling, uniform(7, step))] += 1
    return counts


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    shares = torch.tensor(drawn(Sampling(temperature=1.0))) / 2000
    assert torch.allclose(shares, LOGITS.exp(), atol=0.03)


def test_a_temperature_sharpens() -> None:
    assert drawn(Sampling(temperature=0.5))[1] > drawn(Sampling(temperature=1.0))[1]


def test_only_what_is_allowed_is_drawn() -> None:
    def possible(sampling: Sampling) -> set[int]:
        return {token for token, count in enumerate(drawn(sampling)) if count}

    assert possible(Sampling(temperature=1.0)) == {0, 1, 2, 3}
    assert possible(Sampling(temperature=1.0, top_k=2)) == {0, 1}
    assert possible(Sampling(temperature=1.0, top_p=0.9)) == {0, 1, 3}
    assert possible(Sampling(temperature=1.0, top_p=0.01)) == {1}
    assert possible(Sampling(temperature=0.0)) == {1}
    assert possible(Sampling(temperature=1.0, suppress=frozenset({0, 1}))) == {2, 3}
    assert possible(Sampling(suppress=frozenset({1}))) == {0}


def test_what_is_suppressed_leaves_its_share_of_the_nucleus_to_others() -> None:
    """0.3, 0.15 and 0.05 of what is left are 0.6, 0.3 and 0.1."""
    counts = drawn(Sampling(temperature=1.0, top_p=0.85, suppress=frozenset({1})))
    assert counts[1] == counts[2] == 0
    assert abs(counts[0] / 2000 - 2 / 3) < 0.03


def test_the_repetition_penalty_makes_tokens_less_likely_whatever_their_sign() -> None:
    sampling = Sampling(repetition_penalty=1.2)
    assert choose(torch.tensor([2.0, 1.9]), [0], sampling, 0.0) == 1
    assert choose(torch.tensor([-1.9, -2.0]), [0], sampling, 0.0) == 1
    assert choose(torch.tensor([2.0, 1.9]), [], sampling, 0.0) == 0


def test_the_logits_are_left_as_they_were() -> None:
    logits = LOGITS.clone()
    choose(logits, [1], Sampling(repetition_penalty=2.0, suppress=frozenset({0})), 0.5)
    assert torch.equal(logits, LOGITS)


def test_the_ends_of_chance_are_tokens_too() -> None:
    sampling = Sampling(temperature=1.0)
    assert choose(LOGITS, [], sampling, 0.0) == 1
    assert choose(LOGITS, [], sampling, 1 - 2**-53) == 2


def test_every_seed_step_and_codebook_has_a_chance_of_its_own() -> None:
    chances = [uniform(seed, step, book) for seed in range(-4, 16) for step in range(20) for book in range(16)]
    assert len(set(chances)) == len(chances)
    assert 0 <= min(chances) < 0.001
    assert 0.999 < max(chances) < 1
    assert abs(sum(chances) / len(chances) - 0.5) < 0.02
