"""What code2wav does behind its transformer, for a GPU: products of matrices, and few kernels between them.

The layers are those of :mod:`.code2wav_layers`, with their weights. The signal's form is ``[rows, steps, channels]``,
so that a convolution is the product of the windows it sees with its weights: one product for the tensor cores, with
sums in float32, whatever its dilation, and nothing is transposed. The windows are written by one kernel, which also
applies the activation and joins the past; they take as many times the signal's memory as the convolution has taps.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voice_omni.models.qwen3_omni.code2wav_kernels import Past, Wave, depthwise, loudness, snake, windows
from voice_omni.models.qwen3_omni.code2wav_layers import (
    CausalConv,
    CausalTransConv,
    ConvNeXtBlock,
    DecoderBlock,
    History,
    ResidualUnit,
    Rows,
    SnakeBeta,
    Upsampling,
)


class Convolution(nn.Module):
    """Windows of ``taps`` steps, and their product with ``weight`` ``[outputs, taps * channels]``."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, taps: int, dilation: int = 1) -> None:
        super().__init__()
        self.register_buffer("weight", weight.contiguous())
        self.register_buffer("bias", bias.contiguous())
        self.taps = taps
        self.dilation = dilation
        channels = weight.shape[-1] // taps
        self.history = History(((taps - 1) * dilation, channels), 0) if taps > 1 else None

    def windows(self, signal: Tensor, rows: Rows, wave: Wave | None = None) -> Tensor:
        """``[rows, steps, taps, channels]`` of the signal behind its activation, if it has one."""
        if self.history is None:
            return (signal if wave is None else snake(signal.contiguous(), wave))[:, :, None]
        return windows(signal, Past(*rows.past(self.history)), self.taps, self.dilation, wave)

    def forward(self, signal: Tensor, rows: Rows, wave: Wave | None = None) -> Tensor:
        return functional.linear(self.windows(signal, rows, wave).flatten(2), self.weight, self.bias)


def convolution(layer: CausalConv) -> Convolution:
    weight = layer.conv.weight.transpose(1, 2).flatten(1)
    return Convolution(weight, cast(Tensor, layer.conv.bias), layer.conv.kernel_size[0], layer.conv.dilation[0])


def wave(layer: SnakeBeta) -> Wave:
    return Wave(*layer.factors())


class Upsampler(nn.Module):
    """A transposed convolution: each step's group of ``rate`` is a product of this step and, with two taps, the one
    before."""

    def __init__(self, layer: CausalTransConv) -> None:
        super().__init__()
        self.rate = layer.rate
        self.trimmed = layer.history is not None
        # The newest step meets the first half of the kernel, the one before it the second.
        weight = layer.conv.weight.view(*layer.conv.weight.shape[:2], -1, self.rate).flip(
            2
        )  # [inputs, outputs, taps, rate]
        inner = weight.permute(3, 1, 2, 0).flatten(2).flatten(0, 1)
        self.inner = Convolution(inner, cast(Tensor, layer.conv.bias).repeat(self.rate), weight.shape[2])

    def forward(self, signal: Tensor, rows: Rows, wave: Wave | None = None) -> Tensor:
        groups: Tensor = self.inner(signal, rows, wave)
        raised = groups.view(len(groups), groups.shape[1] * self.rate, -1)
        return rows.upsampled(raised, self.rate, trimmed=self.trimmed, axis=1)


class Refining(nn.Module):
    """A ConvNeXt block."""

    def __init__(self, layer: ConvNeXtBlock) -> None:
        super().__init__()
        conv = layer.dwconv.conv
        taps = conv.kernel_size[0]
        self.depthwise = Convolution(conv.weight[:, 0].T.reshape(1, -1), cast(Tensor, conv.bias), taps)
        self.norm, self.pwconv1, self.pwconv2, self.gamma = layer.norm, layer.pwconv1, layer.pwconv2, layer.gamma

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        conv = self.depthwise
        inner = self.norm(depthwise(conv.windows(signal, rows), conv.weight.view(conv.taps, -1), conv.bias))
        return torch.addcmul(signal, self.pwconv2(functional.gelu(self.pwconv1(inner))), self.gamma)


class Unit(nn.Module):
    """A residual unit."""

    def __init__(self, layer: ResidualUnit) -> None:
        super().__init__()
        self.act1, self.act2 = wave(layer.act1), wave(layer.act2)
        self.conv1, self.conv2 = convolution(layer.conv1), convolution(layer.conv2)

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        inner = self.conv1(signal, rows, self.act1)
        return signal + cast(Tensor, self.conv2(inner, rows, self.act2))


class Block(nn.Module):
    """A decoder block."""

    def __init__(self, layer: DecoderBlock) -> None:
        super().__init__()
        activation, upsampling, *units = layer.block
        self.activation = wave(cast(SnakeBeta, activation))
        self.upsampler = Upsampler(cast(CausalTransConv, upsampling))
        self.units = nn.ModuleList(Unit(cast(ResidualUnit, unit)) for unit in units)

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        signal = self.upsampler(signal, rows, self.activation)
        for unit in self.units:
            signal = unit(signal, rows)
        return signal


class Fused(nn.Module):
    """``[rows, frames, width]`` behind the transformer to float32 samples ``[rows, n]``."""

    def __init__(self, upsample: nn.ModuleList, decoder: nn.ModuleList) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for layer in upsample:
            raised, refined = cast(Upsampling, layer)
            self.layers.extend([Upsampler(cast(CausalTransConv, raised)), Refining(cast(ConvNeXtBlock, refined))])
        first, *blocks, activation, last = decoder
        self.layers.append(convolution(cast(CausalConv, first)))
        self.layers.extend(Block(cast(DecoderBlock, block)) for block in blocks)
        self.activation = wave(cast(SnakeBeta, activation))
        self.last = convolution(cast(CausalConv, last))

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        for layer in self.layers:
            signal = layer(signal, rows)
        return loudness(self.last.windows(signal, rows, self.activation), self.last.weight[0], self.last.bias)
