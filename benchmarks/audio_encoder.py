"""How long Qwen3-Omni's audio encoder takes for some windows, kernel by kernel and in one launch.

    python -m benchmarks.audio_encoder FOLDER [--device cpu] [--windows 1,2,8,16] [--seconds 2]

``FOLDER``: a checkpoint, of which the audio tower is loaded; ``benchmarks.qwen3_omni_gpu --only-checkpoint`` writes one
of the released sizes. In the same run, on the same windows: how far both are from float32 and from each other (relative
error of the worst window), and milliseconds of a call, the copies to and from the device included. On a processor there
are no graphs, and "prepared" only says what filling up costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from benchmarks.machine import describe
from voice_omni.models.qwen3_omni.audio_tower import AudioEncoder, MelWindow
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.mel import FRAMES_PER_SECOND

ROUNDS = 20


def drawn(count: int, frames: int, bands: int) -> list[MelWindow]:
    return [
        MelWindow(torch.randn(bands, frames, generator=torch.Generator().manual_seed(number)) * 0.3)
        for number in range(count)
    ]


def error(rows: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    return max(float((each - other).norm() / other.norm()) for each, other in zip(rows, exact, strict=True))


def milliseconds(encoder: AudioEncoder, windows: Sequence[MelWindow]) -> float:
    """The median of a call that is not the first."""
    encoder.encode(windows)
    spent = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        encoder.encode(windows)
        spent.append((time.perf_counter() - began) * 1000)
    return median(spent)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--windows", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2, 8, 16))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each window, 2 at most")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    checkpoint = Checkpoint(options.folder)
    plain = AudioEncoder(checkpoint, options.device, torch.bfloat16)
    prepared = AudioEncoder(checkpoint, options.device, torch.bfloat16)
    exact = AudioEncoder(checkpoint, options.device, torch.float32)
    prepared.prepare(options.windows, chunks=2)
    print(describe(), flush=True)
    print("| windows | plain, ms | prepared, ms | plain to float32 | prepared to float32 | to each other |")
    print("|---|---|---|---|---|---|")
    for count in options.windows:
        windows = drawn(count, round(options.seconds * FRAMES_PER_SECOND), plain.config.num_mel_bins)
        one, other, best = (encoder.encode(windows) for encoder in (plain, prepared, exact))
        took = f"{milliseconds(plain, windows):.2f} | {milliseconds(prepared, windows):.2f}"
        print(
            f"| {count} | {took} | {error(one, best):.1e} | {error(other, best):.1e} | {error(other, one):.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
