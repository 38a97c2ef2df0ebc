"""The layers that code2wav has on a GPU give what those of the processor give, with the same past.

Without a GPU Triton's interpreter computes the kernels, in a process of its own: it must be chosen before Triton is
imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from voice_omni.models.qwen3_omni.code2wav_layers import (
    CausalConv,
    CausalTransConv,
    ConvNeXtBlock,
    DecoderBlock,
    ResidualUnit,
    Rows,
    SnakeBeta,
    Tables,
    Upsampling,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CHANNELS = 20
ROUNDING = 2e-6
SLOTS = 5
ORDER = [3, 0, 4]
"""The slots of the rows."""


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
COMPUTED = pytest.mark.skipif(DEVICE == "cpu" and not INTERPRETED, reason="computed in the interpreter's process")


@TRITON
@pytest.mark.skipif(DEVICE == "cuda" or INTERPRETED, reason="computed in this process")
def test_in_tritons_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[SimpleNamespace]:
    """The modules of the GPU's layers."""
    from voice_omni.models.qwen3_omni import code2wav_fused, code2wav_kernels

    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED:
            # It needs as long for a large block as for a small one.
            patch.setattr(code2wav_kernels, "_STEPS", 256)
        yield SimpleNamespace(fused=code2wav_fused, kernels=code2wav_kernels)


def drawn(layer: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(4)
    for weight in layer.parameters():
        weight.data = torch.randn(weight.shape, generator=generator) * 0.1
    for module in layer.modules():
        if isinstance(module, SnakeBeta):
            module.prepare()
    return layer.requires_grad_(False)


def signal(rows: int, steps: int, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    return torch.randn(rows, steps, channels, generator=torch.Generator().manual_seed(seed))


PIECES: list[tuple[int, list[int] | None]] = [(30, None), (1, None), (3, [1, 3, 2]), (70, [70, 2, 9]), (9, None)]
"""Steps of a piece, and of each row if they differ: shorter and longer than what a layer remembers."""


def compare(plain: nn.Module, gpu: nn.Module, run: Callable[[nn.Module, Tensor, Rows], Tensor]) -> None:
    """Both get the same pieces: their outputs are the same, and behind the last piece so is what they remember."""
    plain, gpu = plain.to("cpu"), gpu.to(DEVICE)
    kept = Tables(plain, SLOTS, "cpu", torch.float32), Tables(gpu, SLOTS, DEVICE, torch.float32)
    for number, (steps, lengths) in enumerate(PIECES):
        first = number == 0
        given = signal(len(ORDER), steps, seed=number)
        heard = []
        for layer, tables, device in zip((plain, gpu), kept, ("cpu", DEVICE), strict=True):
            slots, position = torch.tensor(ORDER, device=device), torch.zeros(3, dtype=torch.long, device=device)
            counted = None if lengths is None else torch.tensor(lengths, device=device)
            rows = Rows(tables, slots, position, first, counted)
            if layer is plain:
                heard.append(layer(given.transpose(1, 2), rows).transpose(1, 2))
            else:
                heard.append(run(layer, given.to(device), rows).cpu())
        expected, actual = heard
        grown = expected.shape[1] // steps
        for row, count in enumerate(lengths or [steps] * len(ORDER)):
            torch.testing.assert_close(
                actual[row, : count * grown], expected[row, : count * grown], rtol=ROUNDING, atol=2e-5
            )
    for expected, actual in zip(kept[0].histories, kept[1].histories, strict=True):
        torch.testing.assert_close(actual.transpose(1, 2).cpu(), expected, rtol=ROUNDING, atol=2e-5)


def directly(layer: nn.Module, given: Tensor, rows: Rows) -> Tensor:
    return layer(given, rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@COMPUTED
@TRITON
def test_snake_is_computed_in_float32(on_gpu: SimpleNamespace, dtype: torch.dtype) -> None:
    layer: Any = drawn(SnakeBeta(CHANNELS))
    given = (8 * signal(2, 37)).to(dtype)
    rate, share = layer.factors()
    expected = (given.double() + (given.double() * rate.double()).sin() ** 2 * share.double()).to(dtype)
    wave = on_gpu.kernels.Wave(rate.to(DEVICE), share.to(DEVICE))
    actual = on_gpu.kernels.snake(given.to(DEVICE), wave)
    assert actual.dtype == dtype
    # The interpreter cuts off what bfloat16 cannot hold, where a GPU rounds.
    torch.testing.assert_close(actual.cpu(), expected, rtol=2e-6 if dtype == torch.float32 else 2**-7, atol=2e-6)


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (7, 1), (7, 9)])
@COMPUTED
@TRITON
def test_a_convolution(on_gpu: SimpleNamespace, kernel: int, dilation: int) -> None:
    plain = drawn(CausalConv(CHANNELS, 6, kernel, dilation))
    compare(plain, on_gpu.fused.convolution(plain), directly)


@pytest.mark.parametrize("kernel", [3, 6])
@COMPUTED
@TRITON
def test_a_transposed_convolution(on_gpu: SimpleNamespace, kernel: int) -> None:
    plain = drawn(CausalTransConv(CHANNELS, 6, kernel, 3))
    compare(plain, on_gpu.fused.Upsampler(plain), directly)


@COMPUTED
@TRITON
def test_a_residual_unit(on_gpu: SimpleNamespace) -> None:
    plain = drawn(ResidualUnit(CHANNELS, 3))
    compare(plain, on_gpu.fused.Unit(plain), directly)


@COMPUTED
@TRITON
def test_a_decoder_block(on_gpu: SimpleNamespace) -> None:
    plain = drawn(DecoderBlock(CHANNELS, 4))
    compare(plain, on_gpu.fused.Block(plain), directly)


@COMPUTED
@TRITON
def test_a_convnext_block(on_gpu: SimpleNamespace) -> None:
    plain = drawn(ConvNeXtBlock(CHANNELS))
    compare(plain, on_gpu.fused.Refining(plain), directly)


class Sound(nn.Module):
    """What stands behind the transformer, but for the number of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.upsample = nn.ModuleList([Upsampling(CHANNELS, 2)])
        self.decoder = nn.ModuleList(
            [CausalConv(CHANNELS, 12, 7), DecoderBlock(12, 2), SnakeBeta(6), CausalConv(6, 1, 7)]
        )

    def forward(self, given: Tensor, rows: Rows) -> Tensor:
        for layer in (*self.upsample, *self.decoder):
            given = layer(given, rows)
        return given.clamp(-1.0, 1.0)


@COMPUTED
@TRITON
def test_all_that_stands_behind_the_transformer(on_gpu: SimpleNamespace) -> None:
    plain: Any = drawn(Sound())
    gpu = on_gpu.fused.Fused(plain.upsample, plain.decoder)
    compare(plain, gpu, lambda layer, given, rows: layer(given, rows)[:, :, None])
