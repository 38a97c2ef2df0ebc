from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from tests.engines.driver import Driver, row
from tests.engines.test_engines import prompt
from voice_omni.engines.interface import Sampling
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.engines.torch_model import LanguageModel


def test_greedy_rows_equal_the_librarys_own_generation(llama: LlamaForCausalLM) -> None:
    driver = Driver(TorchEngine(LanguageModel(llama)))
    for n in range(3):
        expected = llama.generate(torch.tensor([prompt(n)]), max_new_tokens=24, do_sample=False, eos_token_id=None)
        assert driver.run(row(str(n), prompt(n)))[str(n)] == expected[0, 20:].tolist()


def test_a_seed_makes_a_sampled_row_reproducible_whatever_runs_beside_it(llama: LlamaForCausalLM) -> None:
    driver = Driver(TorchEngine(LanguageModel(llama)))

    def sampled(name: str, seed: int) -> list[int]:
        sampling = Sampling(temperature=1.5, top_p=0.95, seed=seed)
        return driver.run(row(name, prompt(1), sampling=sampling), row(f"beside-{name}", prompt(seed)))[name]

    first, again, other = sampled("first", 1), sampled("again", 1), sampled("other", 2)
    assert first == again != other
