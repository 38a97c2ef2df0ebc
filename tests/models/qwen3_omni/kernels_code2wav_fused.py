"""The layers that code2wav has on a GPU give what those of the processor give, with the same past."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.support.triton import DEVICE, INTERPRETED
from voice_omni.models.qwen3_omni import code2wav_fused, code2wav_kernels, code2wav_network
from voice_omni.models.qwen3_omni.code2wav_batches import Batches, Piece, Size
from voice_omni.models.qwen3_omni.code2wav_layers import (
    CausalConv,
    CausalTransConv,
    ConvNeXtBlock,
    DecoderBlock,
    ResidualUnit,
    Rows,
    SnakeBeta,
    Tables,
)
from voice_omni.models.qwen3_omni.code2wav_network import Code2Wav
from voice_omni.models.qwen3_omni.config import Code2WavConfig, Rope

CHANNELS = 20
ROUNDING = 2e-6
SLOTS = 5
ORDER = [3, 0, 4]
"""The slots of the rows."""


@pytest.fixture(autouse=True)
def _large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter needs as long for a large block as for a small one."""
    if INTERPRETED:
        monkeypatch.setattr(code2wav_kernels, "_STEPS", 256)


def drawn(layer: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(4)
    for weight in layer.parameters():
        weight.data = torch.randn(weight.shape, generator=generator) * 0.1
    return prepared(layer.requires_grad_(False))


def prepared(layer: nn.Module) -> nn.Module:
    for module in layer.modules():
        if isinstance(module, SnakeBeta):
            module.prepare()
    return layer


def signal(rows: int, steps: int, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    return torch.randn(rows, steps, channels, generator=torch.Generator().manual_seed(seed))


PIECES: list[tuple[int, list[int] | None]] = [(30, None), (1, None), (3, [1, 3, 2]), (70, [70, 2, 9]), (9, None)]
"""Steps of a piece, and of each row if they differ: shorter and longer than what a layer remembers."""


def compare(plain: nn.Module, made: Callable[[Any], nn.Module]) -> None:
    """The layer and what is ``made`` of it for a GPU get the same pieces: their outputs are the same, and behind the
    last piece so is what they remember."""
    # The two would share what has no weights to rearrange.
    gpu = made(prepared(deepcopy(plain).to(DEVICE))).to(DEVICE)
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
                heard.append(layer(given.to(device), rows).cpu())
        expected, actual = heard
        grown = expected.shape[1] // steps
        for row, count in enumerate(lengths or [steps] * len(ORDER)):
            torch.testing.assert_close(
                actual[row, : count * grown], expected[row, : count * grown], rtol=ROUNDING, atol=2e-5
            )
    for expected, actual in zip(kept[0].histories, kept[1].histories, strict=True):
        torch.testing.assert_close(actual.transpose(1, 2).cpu(), expected, rtol=ROUNDING, atol=2e-5)


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (7, 1), (7, 9)])
def test_a_convolution(kernel: int, dilation: int) -> None:
    plain = drawn(CausalConv(CHANNELS, 6, kernel, dilation))
    compare(plain, code2wav_fused.convolution)


@pytest.mark.parametrize("kernel", [3, 6])
def test_a_transposed_convolution(kernel: int) -> None:
    plain = drawn(CausalTransConv(CHANNELS, 6, kernel, 3))
    compare(plain, code2wav_fused.Upsampler)


def test_a_residual_unit() -> None:
    plain = drawn(ResidualUnit(CHANNELS, 3))
    compare(plain, code2wav_fused.Unit)


def test_a_decoder_block() -> None:
    plain = drawn(DecoderBlock(CHANNELS, 4))
    compare(plain, code2wav_fused.Block)


def test_a_convnext_block() -> None:
    plain = drawn(ConvNeXtBlock(CHANNELS))
    compare(plain, code2wav_fused.Refining)


def network() -> Code2Wav:
    config = Code2WavConfig(
        codebook_size=9,
        num_quantizers=3,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        sliding_window=4,
        rms_norm_eps=1e-5,
        upsample_rates=(3, 2),
        upsampling_ratios=(2,),
        decoder_dim=20,
        rope=Rope(theta=1e4),
    )
    return cast(Code2Wav, drawn(Code2Wav(config)))


def test_the_network_in_batches_that_are_filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that begin and go on in prepared sizes, with rows that no stream has and frames behind a row's end."""
    plain = Batches(network(), SLOTS, "cpu", torch.float32)
    monkeypatch.setattr(code2wav_network, "fusing", lambda device: True)
    model = network().to(DEVICE)
    model.prepare()
    assert isinstance(model.fused, code2wav_fused.Fused)
    fused = Batches(model, SLOTS, DEVICE, torch.float32)
    fused.prepare([Size(4, 2, True), Size(4, 5, False)])
    codes = np.random.default_rng(0).integers(0, 9, (SLOTS, 20, 3))
    position = [0] * SLOTS
    for given in ([(3, 2), (0, 1)], [(1, 1)], [(0, 5), (3, 1), (1, 2)], [(3, 4), (0, 4)], [(1, 6)], [(3, 1)]):
        pieces = []
        for slot, frames in given:
            pieces.append(Piece(slot, position[slot], codes[slot, position[slot] :][:frames]))
            position[slot] += frames
        heard = [batches.begin(pieces).collect() for batches in (plain, fused)]
        for expected, actual in zip(*heard, strict=True):
            assert expected.std() > 0.01
            np.testing.assert_allclose(actual, expected, atol=2e-5)
