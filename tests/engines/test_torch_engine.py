from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from tests.engines.driver import Driver, row
from tests.engines.test_engines import prompt
from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_engine import TorchEngine, choose


def test_greedy_rows_equal_the_librarys_own_generation(llama: LlamaForCausalLM) -> None:
    driver = Driver(TorchEngine(llama))
    for n in range(3):
        expected = llama.generate(torch.tensor([prompt(n)]), max_new_tokens=24, do_sample=False, eos_token_id=None)
        assert driver.run(row(str(n), prompt(n)))[str(n)] == expected[0, 20:].tolist()


def test_a_seed_makes_a_sampled_row_reproducible_whatever_runs_beside_it(llama: LlamaForCausalLM) -> None:
    driver = Driver(TorchEngine(llama))

    def sampled(name: str, seed: int) -> list[int]:
        sampling = Sampling(temperature=1.5, top_p=0.95, seed=seed)
        return driver.run(row(name, prompt(1), sampling=sampling), row(f"beside-{name}", prompt(seed)))[name]

    first, again, other = sampled("first", 1), sampled("again", 1), sampled("other", 2)
    assert first == again != other


def test_sampling_draws_only_from_what_it_is_told() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))
    generator = torch.Generator().manual_seed(0)

    def drawn(sampling: Sampling) -> set[int]:
        return {choose(logits, [], sampling, generator) for _ in range(200)}

    assert drawn(Sampling(temperature=1.0)) == {0, 1, 2, 3}
    assert drawn(Sampling(temperature=1.0, top_k=2)) == {0, 1}
    assert drawn(Sampling(temperature=1.0, top_p=0.9)) == {0, 1, 2}
    assert drawn(Sampling(temperature=0.0)) == {0}


def test_the_repetition_penalty_makes_tokens_less_likely_whatever_their_sign() -> None:
    generator = torch.Generator()
    assert choose(torch.tensor([2.0, 1.9]), [0], Sampling(repetition_penalty=1.2), generator) == 1
    assert choose(torch.tensor([-1.9, -2.0]), [0], Sampling(repetition_penalty=1.2), generator) == 1
