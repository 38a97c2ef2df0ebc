"""What the thinker's backbone takes by itself, on the engine that serves it and without a pipeline, and what copying
memory on the device takes: measured in a process of its own, before a pipeline needs the device.

    python -m benchmarks.full_size.floors CONFIG_FOLDER [--device cuda] [--steps 1,4,16,64] [--prefills 18,85,512]

Prints one line of JSON. On a GPU the engine is SGLang with drawn weights, whose backbone is a Qwen3-MoE of the same
shape; on a processor it is the torch engine with the checkpoint's own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec
import torch

from voice_omni.engines.interface import Engine, Row, Sampling
from voice_omni.models.qwen3_omni.config import MoeConfig, OmniConfig, load_config

_PROMPT = 32
"""Tokens before the steps that are timed."""


class Floors(msgspec.Struct, frozen=True):
    """``step_ms``: of a decode step by its rows; ``prefill_ms``: of a prompt by its tokens, with the first token of its
    answer. ``copied``: bytes a second, each counted as it is read and as it is written."""

    step_ms: dict[int, float]
    prefill_ms: dict[int, float]
    copied: float


class Alone:
    """An engine without a scheduler over it. Rows of random tokens are drawn from, so that they stay apart."""

    def __init__(self, engine: Engine, vocabulary: int) -> None:
        self._engine = engine
        self._vocabulary = vocabulary
        self._chance = Random(1)
        self._woken = threading.Event()
        self._count = 0
        engine.start(self._woken.set)

    def step_ms(self, rows: int, steps: int) -> float:
        """Milliseconds of a decode step, of those in which all rows run."""
        times = self._run(rows, _PROMPT, steps)
        begin = max(each[min(4, steps // 4)] for each in times)
        end = min(each[-1] for each in times)
        return (end - begin) * 1000 / sum(begin < at <= end for at in times[0])

    def prefill_ms(self, tokens: int, repeats: int) -> float:
        spent = []
        for _ in range(repeats):
            began = time.perf_counter()
            [[at]] = self._run(1, tokens, 1)
            spent.append((at - began) * 1000)
        return median(spent)

    def _run(self, rows: int, prompt: int, tokens: int) -> list[list[float]]:
        """When each token of each row came."""
        times: dict[str, list[float]] = {}
        for _ in range(rows):
            self._count += 1
            drawn = [self._chance.randrange(self._vocabulary) for _ in range(prompt)]
            sampling = Sampling(temperature=1.0, seed=self._count)
            times[f"{self._count}"] = []
            self._engine.add(Row(f"{self._count}", drawn, tokens, frozenset(), sampling))
        running = rows
        while running:
            if not self._engine.busy:
                self._woken.wait()
            self._woken.clear()
            for output in self._engine.step():
                if output.error is not None:
                    raise output.error
                times[output.row_id] += [time.perf_counter()] * len(output.tokens)
                running -= output.finish is not None
        return list(times.values())


def copied(device: str, size: int, repeats: int = 10) -> float:
    """Bytes a second of a copy within the device's memory."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def moment() -> float:
        if device != "cpu":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    target.copy_(source)
    began = moment()
    for _ in range(repeats):
        target.copy_(source)
    return 2 * size * repeats / (moment() - began)


def backbone(text: MoeConfig) -> dict[str, Any]:
    """The ``config.json`` of a Qwen3-MoE with the thinker's shape."""
    return {
        **{name: value for name, value in msgspec.structs.asdict(text).items() if name not in ("rope", "dtype")},
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "dtype": "bfloat16",
        "intermediate_size": text.moe_intermediate_size,
        "rope_theta": text.rope.theta,
    }


def _sglang(folder: Path, config: OmniConfig, device: str, steps: Sequence[int], prefills: Sequence[int]) -> Engine:
    from voice_omni.engines.sglang.engine import SglangEngine
    from voice_omni.engines.sglang.options import SglangOptions

    (folder / "config.json").write_text(json.dumps(backbone(config.thinker.text)))
    captured = {"cuda_graph_bs_decode": sorted(steps), "cuda_graph_bs_prefill": sorted({_PROMPT, *prefills})}
    options = SglangOptions(
        model=str(folder),
        device=device,
        dtype="bfloat16",
        max_rows=max(steps),
        kv_tokens=131_072,
        memory_fraction=0.9,
        attention_backend="triton",
        server_args={"load_format": "dummy", "context_length": 32_768, **captured},
    )
    return SglangEngine(options)


def _torch(folder: Path) -> Engine:
    from voice_omni.engines.torch_engine import TorchEngine
    from voice_omni.models.qwen3_omni.backbones import load_thinker
    from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
    from voice_omni.models.qwen3_omni.thinker import Thinker

    return TorchEngine(Thinker(load_thinker(Checkpoint(folder))), kept_positions=0)


def measure(folder: Path, device: str, steps: Sequence[int], prefills: Sequence[int], count: int = 64) -> Floors:
    config = load_config(folder)
    on_gpu = device != "cpu"
    if not on_gpu:
        torch.set_num_threads(1)
    bandwidth = copied(device, 2**32 if on_gpu else 2**28)
    if on_gpu:
        torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory(prefix="backbone-") as scratch:
        engine = _sglang(Path(scratch), config, device, steps, prefills) if on_gpu else _torch(folder)
        try:
            alone = Alone(engine, config.thinker.text.vocab_size)
            alone.step_ms(max(steps), 8)  # warms up
            return Floors(
                {rows: alone.step_ms(rows, count) for rows in steps},
                {tokens: alone.prefill_ms(tokens, 5) for tokens in prefills},
                bandwidth,
            )
        finally:
            engine.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the model's config.json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", default="1,4,8,16,32,64")
    parser.add_argument("--prefills", default="18,85,512")
    options = parser.parse_args()
    steps, prefills = ([int(each) for each in text.split(",")] for text in (options.steps, options.prefills))
    print(msgspec.json.encode(measure(options.folder, options.device, steps, prefills)).decode())


if __name__ == "__main__":
    main()
