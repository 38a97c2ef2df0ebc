"""How long the talker's code predictor takes in one step: Triton's kernels beside plain torch, each in a CUDA graph.

    python -m benchmarks.frame_head [--device cpu] [--rows 1,4,16,64] [--layers 5]

The predictor has the released sizes and random weights in bfloat16. The floor is the time in which its weights can be
read, once for each of the fifteen codes that it writes, at the rate at which a copy reads and writes. On a processor
there is plain torch alone and no graph, which tells that it works and not how fast it is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import torch

from benchmarks.machine import describe
from tests.support.released_qwen3_omni import CONFIG
from voice_omni.engines.sglang.frames.head import FrameHead, Parts, TorchHead
from voice_omni.engines.sglang.frames.predictor import CodePredictor, Shape
from voice_omni.engines.sglang.frames.slots import Slots
from voice_omni.models.qwen3_omni.config import load_config
from voice_omni.models.qwen3_omni.device_queue import queue_on
from voice_omni.models.qwen3_omni.talker_export import talker_config

ROUNDS = 50
COPIED = 2**30
"""Bytes."""


def parts_of(device: torch.device, rows: int, layers: int | None) -> Parts:
    """Sizes as released, but for the number of ``layers`` where one is given."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_bytes(msgspec.json.encode(CONFIG))
        talker = load_config(Path(folder)).talker
    assert talker is not None
    config = talker_config(talker, "bfloat16")
    predictor_config = config["code_predictor_config"]
    if layers is not None:
        predictor_config = {**predictor_config, "num_hidden_layers": layers}
    shape = Shape.of(predictor_config)
    vocabulary: int = config["vocab_size"]
    predictor = CodePredictor(shape)
    for weight in predictor.parameters():
        weight.data = (torch.randn(weight.shape) * weight.shape[-1] ** -0.5).to(device, torch.bfloat16)
    predictor.rotation = predictor.rotation.to(device)
    with torch.device(device):
        slots = Slots(rows, shape.width, vocabulary, shape.books)
        slots.temperature.fill_(0.9)
        slots.top_k.fill_(50)
        table = torch.randn(vocabulary, shape.width, dtype=torch.bfloat16)
        suppressed = torch.zeros(vocabulary)
    drawn = config["residual_sampling"]
    return Parts(slots, predictor, table, suppressed, drawn["top_k"], drawn["top_p"])


def heads(parts: Parts) -> dict[str, FrameHead]:
    if not parts.table.is_cuda:
        return {"torch": TorchHead(parts)}
    # Triton cannot be imported everywhere.
    from voice_omni.engines.sglang.frames.fused import FusedHead

    return {"torch": TorchHead(parts), "Triton": FusedHead(parts)}


def milliseconds(device: torch.device, compute: Callable[[], object]) -> float:
    """The median of a call that is not the first."""

    def once() -> None:
        compute()

    queue = queue_on(device, torch.bfloat16)
    queue.settle()
    run, mark, spent = queue.captured(once), queue.mark(), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with queue.entered():
            run()
            mark.set()
        mark.wait()
        spent.append((time.perf_counter() - began) * 1000)
    return median(spent[ROUNDS // 5 :])


@torch.inference_mode()
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=lambda text: tuple(map(int, text.split(","))), default=(1, 4, 16, 64))
    parser.add_argument("--layers", type=int, help="default: as released")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    parts = parts_of(device, max(options.rows), options.layers)
    source, target = (torch.empty(COPIED, dtype=torch.uint8, device=device) for _ in range(2))
    per_ms = 2 * COPIED / milliseconds(device, lambda: target.copy_(source))
    shape = parts.predictor.shape
    once = sum(weight.nbytes for name, weight in parts.predictor.named_parameters() if name.startswith("layers."))
    floor = (once * (shape.books - 1) + parts.predictor.heads.nbytes) / per_ms
    print(f"{describe()}; {options.device} copies {per_ms / 1e9:.2f} TB/s", flush=True)
    kinds = heads(parts)
    print(f"| rows | {' | '.join(f'{name}, ms' for name in kinds)} | times the floor of {floor:.2f} ms |")
    print(f"|---|{'---|' * len(kinds)}---|")
    for rows in options.rows:
        at = torch.arange(rows, device=device)
        hidden = torch.randn(rows, shape.width, dtype=torch.bfloat16, device=device)
        logits = torch.randn(rows, len(parts.table), device=device)
        took = [milliseconds(device, partial(head.write, at, hidden, logits)) for head in kinds.values()]
        print(f"| {rows} | {' | '.join(f'{each:.2f}' for each in took)} | {took[-1] / floor:.1f} |", flush=True)


if __name__ == "__main__":
    main()
