"""The network of code2wav: codes of a batch of pieces to their samples, each behind its stream's past."""

from __future__ import annotations

from importlib.util import find_spec
from math import prod

import torch
from torch import Tensor, nn

from voice_omni.models.qwen3_omni.code2wav_layers import (
    CausalConv,
    DecoderBlock,
    History,
    Rows,
    SlidingTransformer,
    SnakeBeta,
    Upsampling,
)
from voice_omni.models.qwen3_omni.config import Code2WavConfig


class Code2Wav(nn.Module):
    """The network; parameters are named as in the checkpoint below ``code2wav.``.

    ``frame_samples`` is the hop (1920), ``trim`` what the whole signal is shorter than its frames (555).
    """

    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        self.codebooks, self.codebook_size = config.num_quantizers, config.codebook_size
        rates = config.upsample_rates
        self.frame_samples = config.frame_samples
        self.trim = sum(prod(rates[index:]) for index in range(len(rates)))
        self.code_embedding = nn.Embedding(config.codebook_size * config.num_quantizers, config.hidden_size)
        self.pre_transformer = SlidingTransformer(config)
        self.upsample = nn.ModuleList(Upsampling(config.hidden_size, ratio) for ratio in config.upsampling_ratios)
        channels = config.decoder_dim
        self.decoder = nn.ModuleList([CausalConv(config.hidden_size, channels, 7)])
        for rate in config.upsample_rates:
            self.decoder.append(DecoderBlock(channels, rate))
            channels //= 2
        self.decoder.extend([SnakeBeta(channels), CausalConv(channels, 1, 7)])
        self.fused: nn.Module | None = None

    @torch.no_grad()
    def prepare(self) -> None:
        """Once, when the weights are there, and before tables are made.

        For a GPU the layers behind the transformer are replaced by fewer and larger operations, and the transformer
        computes in float32: it is a small part of the work, and rounding all its steps to bfloat16 would do more to
        the sound than rounding everything behind it.
        """
        if fusing(self.code_embedding.weight.device):
            self._fuse()
        for module in self.modules():
            if isinstance(module, SnakeBeta):
                module.prepare()

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """Long ``[rows, codebooks, frames]`` to samples ``[rows, n]``; of a shorter row its first ones count."""
        offsets = torch.arange(codes.shape[1], device=codes.device) * self.codebook_size
        embedded = self.code_embedding(codes + offsets[:, None])
        if self.fused is not None:
            behind: Tensor = self.pre_transformer(embedded.mean(dim=1, dtype=torch.float32), rows)
            samples: Tensor = self.fused(behind.to(embedded.dtype), rows)
            return samples
        signal: Tensor = self.pre_transformer(embedded.mean(dim=1), rows).transpose(1, 2)
        for layer in (*self.upsample, *self.decoder):
            signal = layer(signal, rows)
        return signal[:, 0].clamp(-1.0, 1.0)

    def _fuse(self) -> None:
        from voice_omni.models.qwen3_omni.code2wav_fused import Fused

        self.fused = Fused(self.upsample, self.decoder)
        self.upsample, self.decoder = nn.ModuleList(), nn.ModuleList()
        self.pre_transformer.float()
        for module in self.pre_transformer.modules():
            if isinstance(module, History):
                module.dtype = torch.float32


def fusing(device: torch.device) -> bool:
    """Whether the layers behind the transformer are those of :mod:`.code2wav_fused`: on a GPU with Triton."""
    return device.type == "cuda" and find_spec("triton") is not None
