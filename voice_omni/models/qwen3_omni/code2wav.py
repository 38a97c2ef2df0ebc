"""Codec frames to samples, streaming and exact: however a stream is cut, its samples are those of one decode.

A frame is 16 codes; 12.5 frames make a second of sound at 24 kHz. The decoder is causal but for its overlapping
upsampling layers, which hold back 555 samples: after k frames exactly the first 1920 k - 555 samples of the whole
decode are known, and these are what has been given out. At the end of a stream nothing is left to flush.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav_layers import (
    CausalConv,
    DecoderBlock,
    Rows,
    SlidingTransformer,
    SnakeBeta,
    Tables,
    Upsampling,
)
from voice_omni.models.qwen3_omni.config import Code2WavConfig
from voice_omni.models.qwen3_omni.layout import Part
from voice_omni.proto.errors import OmniError

Codes = NDArray[np.integer]
Samples = NDArray[np.float32]


class Code2Wav(nn.Module):
    """The network; parameters are named as in the checkpoint below ``code2wav.``."""

    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        self.codebook_size = config.codebook_size
        self.code_embedding = nn.Embedding(config.codebook_size * config.num_quantizers, config.hidden_size)
        self.pre_transformer = SlidingTransformer(config)
        self.upsample = nn.ModuleList(Upsampling(config.hidden_size, ratio) for ratio in config.upsampling_ratios)
        channels = config.decoder_dim
        self.decoder = nn.ModuleList([CausalConv(config.hidden_size, channels, 7)])
        for rate in config.upsample_rates:
            self.decoder.append(DecoderBlock(channels, rate))
            channels //= 2
        self.decoder.extend([SnakeBeta(channels), CausalConv(channels, 1, 7)])

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """Long ``[rows, codebooks, frames]`` to samples ``[rows, n]``; each row's first ``rows.lengths`` count."""
        offsets = torch.arange(codes.shape[1], device=codes.device) * self.codebook_size
        frames = self.code_embedding(codes + offsets[:, None]).mean(dim=1)
        signal: Tensor = self.pre_transformer(frames, rows).transpose(1, 2)
        for layer in (*self.upsample, *self.decoder):
            signal = layer(signal, rows)
        return signal[:, 0].clamp(-1.0, 1.0)


class StreamDecoder:
    """Decodes many streams, each with its state in a slot; memory is fixed by the number of slots.

    Not thread-safe: for one scheduler's thread. ``frame_samples`` is the hop (1920), ``trim`` what the whole signal
    is shorter than its frames (555).
    """

    def __init__(self, checkpoint: Checkpoint, slots: int, device: torch.device | str, dtype: torch.dtype) -> None:
        config = checkpoint.config.code2wav
        if config is None:
            raise OmniError("unsupported_model", "the checkpoint has no code2wav: it only writes", param="code2wav")
        self.codebooks, self.codebook_size = config.num_quantizers, config.codebook_size
        rates = config.upsample_rates
        self.frame_samples = prod(config.upsampling_ratios) * prod(rates)
        self.trim = sum(prod(rates[index:]) for index in range(len(rates)))
        with torch.device("meta"):
            self._model = Code2Wav(config)
        checkpoint.load(self._model, Part.CODE2WAV, device=device, dtype=dtype)
        self._device = device
        self._tables = Tables(self._model, slots, device, dtype)
        self._free = list(range(slots))

    def open(self) -> int:
        """A slot for a new stream. Raises ``overloaded`` if all are taken."""
        if not self._free:
            raise OmniError("overloaded", "code2wav has no free slot for another stream", retryable=True)
        slot = self._free.pop()
        self._tables.clear(slot)
        return slot

    def close(self, slot: int) -> None:
        """The stream has ended; its slot may be another's."""
        self._free.append(slot)

    def check(self, codes: Codes) -> None:
        """Raises ``internal_error`` unless these are codes ``[frames, codebooks]``, each below the codebook's size."""
        if codes.ndim != 2 or codes.shape[1] != self.codebooks:
            raise OmniError("internal_error", f"expected codes [frames, {self.codebooks}], got {list(codes.shape)}")
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < self.codebook_size:
            raise OmniError(
                "internal_error", f"codes from {codes.min()} to {codes.max()}, expected 0 to {self.codebook_size - 1}"
            )

    @torch.inference_mode()
    def decode(self, pieces: Sequence[tuple[int, Codes]]) -> list[Samples]:
        """The next samples of each stream: of ``(slot, codes [frames, codebooks])``, a slot once, at least one frame.

        float32, ``frame_samples`` for each frame, ``trim`` less for the first piece of a stream.
        """
        frames = [len(codes) for _, codes in pieces]
        padded = np.zeros((len(pieces), self.codebooks, max(frames)), np.int64)
        for row, (_, codes) in zip(padded, pieces, strict=True):
            row[:, : len(codes)] = codes.T
        rows = Rows(self._tables, [slot for slot, _ in pieces], frames, self._device)
        samples = self._model(torch.from_numpy(padded).to(self._device), rows).float().cpu().numpy()
        rows.advance()
        return [row[:length] for row, length in zip(samples, rows.lengths.tolist(), strict=True)]
