"""Qwen3-Omni's code2wav on a GPU: is it exact, how long does a call take, and what does its stream's priority do?

    python -m benchmarks.code2wav_gpu [--model FOLDER] [--device cuda]

Without ``--model`` the released network with random weights, which are as fast as any. Each check stands alone: one
that fails says so and lets the others run; the exit code is then 1. Times of a call are from its codes in numpy to its
samples in numpy; beside them stand the calls without graphs, and what the device at least needs: reading the weights
once, and 5 GFLOP for each frame (at 4.3 TB/s and 790 TFLOP/s, what an H200 has been measured to do).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.machine import describe
from tests.support.released_qwen3_omni import CONFIG
from voice_omni.models.qwen3_omni import code2wav_network
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav import StreamDecoder
from voice_omni.models.qwen3_omni.code2wav_batches import Size, grid
from voice_omni.models.qwen3_omni.config import parse_config
from voice_omni.models.qwen3_omni.layout import Part, layout
from voice_omni.models.qwen3_omni.options import Code2WavOptions

Shape = tuple[int, int]
"""Streams, and frames of each."""

SLOTS: Final = 64
ROUNDS: Final = 20
SHAPES: Final[Sequence[Shape]] = (
    *((1, 1), (1, 4), (1, 25), (4, 1), (8, 1), (16, 1)),
    *((16, 8), (32, 1), (32, 4), (64, 1), (64, 2), (64, 4)),
)
"""Of the calls that are timed."""
EAGER: Final[Sequence[Shape]] = ((1, 1), (16, 1), (64, 1), (64, 4))
READ_MS: Final = 0.085
FRAME_MS: Final = 5.0e9 / 790e12 * 1e3
BFLOAT16_ERROR: Final = 2e-2
BESIDE: Final = 50
"""Calls beside other work, each of which may wait for long."""


class Drawn:
    """In the place of a checkpoint: the released shapes, weights that keep a signal's size, bfloat16 throughout."""

    def __init__(self) -> None:
        self.config = parse_config(CONFIG)

    def load(self, module: nn.Module, part: Part, *, device: Any, dtype: torch.dtype) -> None:
        generator = torch.Generator(device).manual_seed(1)
        weights = {}
        for full_name, shape in layout(self.config, part).items():
            name = full_name[len(part.value) :]
            drawn = torch.randn(shape, generator=generator, device=device) * _deviation(name, shape)
            if "norm" in name and name.endswith("weight"):
                drawn += 1
            weights[name] = drawn.to(torch.bfloat16).to(dtype)
        module.load_state_dict(weights, assign=True)
        module.requires_grad_(False).eval()


def _deviation(name: str, shape: Sequence[int]) -> float:
    if len(shape) == 1:
        return 0.1
    inputs = float(np.prod(shape[1:]))
    if name.startswith("decoder") and ".block.1." in name:  # transposed: two taps of each input reach a sample
        return 0.6 / (2 * shape[0]) ** 0.5
    if name.startswith("decoder.6"):
        return 0.05 / inputs**0.5
    return 1.0 if "embedding" in name else (0.2 if "conv2" in name else 1.0) / inputs**0.5


class Bench:
    def __init__(self, model: Path | None, device: str) -> None:
        self.checkpoint: Any = Drawn() if model is None else Checkpoint(model)
        self.device = device
        self.cuda = device.startswith("cuda")
        self.failed = False
        self.books = self.checkpoint.config.code2wav.codebook_size

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """A failure is printed and remembered, and the rest goes on."""
        begin = time.perf_counter()
        try:
            yield
        except Exception:  # noqa: BLE001 - said aloud; the other checks have their own results
            self.failed = True
            print(f"FAILED {name}\n{traceback.format_exc(limit=-6)}", flush=True)
        else:
            print(f"       {name}: {time.perf_counter() - begin:.1f} s", flush=True)

    def expect(self, name: str, value: float, limit: float) -> None:
        good = value <= limit
        self.failed |= not good
        print(f"{'ok    ' if good else 'FAILED'} {name}: {value:.2e}, at most {limit:.0e}", flush=True)

    def decoder(self, dtype: torch.dtype, sizes: Sequence[Size] = (), slots: int = SLOTS) -> StreamDecoder:
        return StreamDecoder(self.checkpoint, slots, self.device, dtype, sizes)

    def layered(self, dtype: torch.dtype) -> StreamDecoder:
        """Without graphs, and with the layers of a processor."""
        with patch.object(code2wav_network, "fusing", lambda device: False):
            return self.decoder(dtype)

    def codes(self, frames: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, self.books, (frames, 16))


def distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest sample."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def deviation(actual: np.ndarray, expected: np.ndarray) -> float:
    """Of the whole signal, relative to it."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


def cut(decoder: StreamDecoder, frames: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    slot = decoder.open()
    pieces = [piece for piece in np.split(frames, np.cumsum(sizes)) if len(piece)]
    samples = [decoder.decode([(slot, piece)])[0] for piece in pieces]
    decoder.close(slot)
    return np.concatenate(samples)


def mixture(decoder: StreamDecoder, bench: Bench, seed: int) -> list[np.ndarray]:
    """Streams that begin, run in pieces of their own lengths beside each other, and end, slots being reused."""
    chance = np.random.default_rng(seed)
    heard: list[np.ndarray] = []
    slots: dict[int, int] = {}
    for step in range(24):
        while len(slots) < 6:
            slots[len(heard) * 100 + len(slots)] = decoder.open()
        names = sorted(slots)
        batch = list(chance.permutation(len(names))[: chance.integers(1, len(names) + 1)])
        pieces = [bench.codes(int(chance.integers(1, 9)), 1000 * step + int(index)) for index in batch]
        heard += decoder.decode([(slots[names[int(i)]], piece) for i, piece in zip(batch, pieces, strict=True)])
        if step % 3 == 2:
            decoder.close(slots.pop(names[int(chance.integers(len(names)))]))
    for slot in slots.values():
        decoder.close(slot)
    return heard


# -- exactness ---------------------------------------------------------------------------------------------------------


def exactness(bench: Bench) -> np.ndarray:
    """Graphs against plain calls, cuts against the whole, and the layers of a GPU against those of a processor, in
    float32. Returns a stream's sound of the latter, for reference."""
    prepared = grid(Code2WavOptions(graph_streams=(1, 3, 8), graph_frames=(1, 3, 8)), SLOTS)
    plain, graphs = bench.decoder(torch.float32), bench.decoder(torch.float32, prepared)
    whole = cut(bench.layered(torch.float32), bench.codes(100), [100])
    print(f"       loudest sample {np.abs(whole).max():.3f}, root mean square {np.sqrt((whole**2).mean()):.4f}")
    ones, mixed = [1] * 100, [1, 1, 2, 3, 5, 8, 1, 7, 6, 4, 3, 8, 8, 8, 8]
    for name, decoder, sizes in (
        ("plain", plain, [100]),
        ("plain", plain, ones),
        ("graphs", graphs, ones),
        ("graphs", graphs, mixed),
    ):
        far_off = distance(cut(decoder, bench.codes(100), sizes), whole)
        bench.expect(f"float32, {name}, {len(sizes)} pieces and the rest against the whole", far_off, 1e-4)
    far = [distance(one, other) for one, other in zip(mixture(graphs, bench, 3), mixture(plain, bench, 3), strict=True)]
    bench.expect("float32, graphs against plain, streams mixed", max(far), 1e-4)
    return whole


def precision(bench: Bench, whole: np.ndarray) -> None:
    """Other types against float32, of the same weights, and bfloat16 with the layers of a processor."""
    for dtype in (torch.bfloat16, torch.float16):
        actual = cut(bench.decoder(dtype), bench.codes(100), [1, 3, 25, 25, 25])
        name = f"{str(dtype)[6:]} against float32"
        print(f"       {name}, largest difference: {distance(actual, whole):.2e}")
        bench.expect(f"{name}, relative error", deviation(actual, whole), BFLOAT16_ERROR)
    actual = cut(bench.layered(torch.bfloat16), bench.codes(100), [1, 3, 25, 25, 25])
    print(f"       bfloat16 with the layers of a processor, relative error: {deviation(actual, whole):.2e}")


# -- time --------------------------------------------------------------------------------------------------------------


def timed(call: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Milliseconds, sorted."""
    call()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)


def going_on(decoder: StreamDecoder, streams: int, bench: Bench) -> list[int]:
    slots = [decoder.open() for _ in range(streams)]
    decoder.decode([(slot, bench.codes(1)) for slot in slots])
    return slots


def calls(bench: Bench, decoder: StreamDecoder, shapes: Sequence[Shape]) -> dict[Shape, tuple[float, float]]:
    """Median of whole calls, and of their part before anything is waited for."""
    found: dict[Shape, tuple[float, float]] = {}
    for streams, frames in shapes:
        slots = going_on(decoder, streams, bench)
        pieces = [(slot, bench.codes(frames)) for slot in slots]
        submitting: list[float] = []

        def call(pieces: Sequence[Any] = pieces, submitting: list[float] = submitting) -> None:
            begin = time.perf_counter()
            decoding = decoder.submit(pieces)
            submitting.append((time.perf_counter() - begin) * 1e3)
            decoding.collect()

        found[streams, frames] = statistics.median(timed(call)), statistics.median(submitting)
        for slot in slots:
            decoder.close(slot)
    return found


def first_frames(bench: Bench, decoder: StreamDecoder, streams: int) -> float:
    slots = [decoder.open() for _ in range(streams)]
    pieces = [(slot, bench.codes(1)) for slot in slots]

    def call() -> None:
        for slot in slots:
            decoder.close(slot)
        for _ in slots:
            decoder.open()
        decoder.decode(pieces)

    median = statistics.median(timed(call))
    for slot in slots:
        decoder.close(slot)
    return median


def speed(bench: Bench, decoder: StreamDecoder, plain: StreamDecoder, shapes: Sequence[Shape]) -> None:
    graphs, eager = calls(bench, decoder, shapes), calls(bench, plain, [shape for shape in EAGER if shape in shapes])
    print("| streams x frames | call, ms | of it before waiting | without graphs | at least |")
    print("|---|---|---|---|---|")
    for (streams, frames), (whole, before) in graphs.items():
        plain_ms = f"{eager[streams, frames][0]:.2f}" if (streams, frames) in eager else "-"
        floor = max(READ_MS, streams * frames * FRAME_MS)
        print(f"| {streams} x {frames} | {whole:.2f} | {before:.2f} | {plain_ms} | {floor:.2f} |")
    for streams in (1, 16):
        print(f"       first frames of {streams}: {first_frames(bench, decoder, streams):.2f} ms")


# -- priority ----------------------------------------------------------------------------------------------------------


@contextmanager
def busy(device: str) -> Iterator[None]:
    """Products of large matrices on another stream of this process, one behind the other: a prefill that never ends."""
    stopping = threading.Event()
    matrix = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)

    def multiply() -> None:
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            while not stopping.is_set():
                for _ in range(4):
                    torch.mm(matrix, matrix)
                stream.synchronize()

    thread = threading.Thread(target=multiply)
    thread.start()
    try:
        time.sleep(0.2)
        yield
    finally:
        stopping.set()
        thread.join()


def priority(bench: Bench) -> None:
    """One frame of one stream, alone and beside other work, on a stream of the highest and of the usual priority."""
    sizes = [Size(1, 1, True), Size(1, 1, False)]
    low = patch.object(torch.cuda.Stream, "priority_range", staticmethod(lambda: (0, 0)))
    print(f"       priorities of this device: {torch.cuda.Stream.priority_range()}")  # type: ignore[call-arg]
    for name in ("highest", "usual"):
        if name == "usual":
            with low:
                decoder = bench.decoder(torch.bfloat16, sizes, 1)
        else:
            decoder = bench.decoder(torch.bfloat16, sizes, 1)
        (slot,) = going_on(decoder, 1, bench)
        one = [(slot, bench.codes(1))]
        alone = timed(lambda decoder=decoder, one=one: decoder.decode(one), BESIDE)  # type: ignore[misc]
        with busy(bench.device):
            beside = timed(lambda decoder=decoder, one=one: decoder.decode(one), BESIDE)  # type: ignore[misc]
        middle, high = BESIDE // 2, BESIDE * 9 // 10
        print(
            f"       {name} priority, ms p50/p90: alone {alone[middle]:.2f}/{alone[high]:.2f}, "
            f"beside matrix products {beside[middle]:.2f}/{beside[high]:.2f}"
        )


# -- where the time goes -----------------------------------------------------------------------------------------------


def kernels(bench: Bench, plain: StreamDecoder, streams: int, frames: int) -> None:
    """The kernels of one call without graphs, those that take longest first."""
    slots = going_on(plain, streams, bench)
    pieces = [(slot, bench.codes(frames)) for slot in slots]
    plain.decode(pieces)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        plain.decode(pieces)
    for slot in slots:
        plain.close(slot)
    events: list[Any] = [event for event in profile.key_averages() if event.self_device_time_total > 0]
    events.sort(key=lambda event: -event.self_device_time_total)
    whole, count = sum(event.self_device_time_total for event in events), sum(event.count for event in events)
    print(f"       {streams} x {frames}: {count} kernels, {whole / 1e3:.2f} ms")
    for event in events[:10]:
        print(f"         {event.self_device_time_total / 1e3:7.3f} ms {event.count:4d} x {event.key[:90]}")


def convolutions(bench: Bench) -> None:
    """The decoder's convolutions of 7 steps, launch and wait included: by cuDNN with channels before steps and behind
    them, and as windows and a product, these with the activation and the past's moving on."""
    from voice_omni.models.qwen3_omni.code2wav_kernels import Past, Wave, windows

    for rows, frames in ((1, 1), (64, 1), (32, 8)):
        for dilation in (1, 9):
            line = []
            for channels, steps in ((768, 32), (384, 160), (192, 640), (96, 1920)):
                made: Any = {"device": bench.device, "dtype": torch.bfloat16}
                kept = 6 * dilation
                joined = torch.randn(rows, channels, frames * steps + kept, **made)
                weight = torch.randn(channels, channels, 7, **made)
                flat = [each[:, :, None].contiguous(memory_format=torch.channels_last) for each in (joined, weight)]
                signal = joined[:, :, kept:].transpose(1, 2).contiguous()
                product = weight.transpose(1, 2).flatten(1).contiguous()
                table = torch.zeros(rows, kept, channels, **made)
                past = Past(table, torch.arange(rows, device=bench.device), None, False)
                wave = Wave(*torch.ones(2, channels, device=bench.device))
                ways: list[Callable[[], Any]] = [
                    partial(functional.conv1d, joined, weight, dilation=dilation),
                    partial(functional.conv2d, *flat, dilation=(1, dilation)),
                    lambda signal=signal, past=past, dilation=dilation, wave=wave, product=product: functional.linear(  # type: ignore[misc]
                        windows(signal, past, 7, dilation, wave).flatten(2), product
                    ),
                ]
                times = [statistics.median(timed(partial(_waited, way))) for way in ways]
                line.append(f"{channels}: {' / '.join(f'{time:.3f}' for time in times)}")
            print(f"       {rows} x {frames}, {dilation} apart, ms first / last / windows: {', '.join(line)}")


def _waited(way: Callable[[], Any]) -> None:
    way()
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a checkpoint's folder; by default random weights")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    bench = Bench(options.model, options.device)
    print(describe())
    print(f"torch {torch.__version__}" + (f", {torch.cuda.get_device_name()}" if bench.cuda else ""))
    whole = None
    with bench.check("exactness"):
        whole = exactness(bench)
    if whole is not None:
        with bench.check("precision"):
            precision(bench, whole)
    shapes = SHAPES if bench.cuda else SHAPES[:4]
    with bench.check("speed"):
        plain = bench.decoder(torch.bfloat16)
        if bench.cuda:
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved()
        begin = time.perf_counter()
        sizes = grid(Code2WavOptions(), SLOTS) if bench.cuda else [Size(*shape, False) for shape in shapes]
        decoder = bench.decoder(torch.bfloat16, sizes)
        print(f"       {len(sizes)} sizes: {time.perf_counter() - begin:.1f} s until ready")
        if bench.cuda:
            print(f"       {(torch.cuda.memory_reserved() - before) / 1e9:.2f} GB with weights and states")
        one_by_one = [cut(each, bench.codes(20), [1] * 20) for each in (decoder, plain)]
        bench.expect("bfloat16, graphs against plain, one by one", distance(*one_by_one), 1e-5)
        speed(bench, decoder, plain, shapes)
    if bench.cuda:
        with bench.check("kernels"):
            for streams, frames in ((1, 1), (64, 1), (32, 8)):
                kernels(bench, plain, streams, frames)
        with bench.check("priority"):
            priority(bench)
        with bench.check("convolutions"):
            convolutions(bench)
        print(f"       peak memory of this process {torch.cuda.max_memory_reserved() / 1e9:.2f} GB")
    sys.exit(int(bench.failed))


if __name__ == "__main__":
    main()
