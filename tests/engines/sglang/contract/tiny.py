"""A Qwen3 small enough for tests, whose weights are large enough for its choices to be clear ones."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

VOCABULARY, WIDTH = 320, 64


def write_tiny_qwen3(folder: Path) -> Path:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).float().save_pretrained(folder)
    # What the checkpoint calls the end of a sequence is something that it does say.
    config.eos_token_id = greedy(folder, prompt(2), 5)[-1]
    config.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    return folder


def prompt(seed: int, length: int = 20) -> list[int]:
    return random.Random(seed).choices(range(3, VOCABULARY), k=length)


def greedy(folder: Path, ids: list[int], count: int) -> list[int]:
    """What transformers says, without a stop at any token."""
    return list(_greedy(folder, tuple(ids), count))


@cache
def _greedy(folder: Path, ids: tuple[int, ...], count: int) -> list[int]:
    import torch

    with torch.inference_mode():
        said = _reference(folder).generate(
            torch.tensor([ids]), max_new_tokens=count, min_new_tokens=count, do_sample=False, eos_token_id=None
        )
    tokens: list[int] = said[0, len(ids) :].tolist()
    return tokens


def penalised(folder: Path, ids: list[int], count: int, penalty: float) -> list[int]:
    """The same with a repetition penalty on what has been said, and not on the prompt."""
    import torch

    said: list[int] = []
    with torch.inference_mode():
        while len(said) < count:
            logits = _reference(folder)(torch.tensor([[*ids, *said]])).logits[0, -1]
            again = sorted(set(said))
            logits[again] = torch.where(logits[again] < 0, logits[again] * penalty, logits[again] / penalty)
            said.append(int(logits.argmax()))
    return said


@cache
def _reference(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
