"""The audio tower: windows of mel frames to rows for the thinker, many windows in one batch.

A *chunk* is one second (100 mel frames); its convolutions and positions know nothing of other chunks, and it gives 13
rows. A *window* is a whole number of chunks that attend to each other; nothing passes from window to window. So a
window's rows depend on the window alone, whichever others it is batched with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import AudioConfig
from voice_omni.models.qwen3_omni.layout import Part

CHUNK: Final = 100
"""Mel frames of one convolution chunk: a second."""

CHUNK_ROWS: Final = 13

_CONV_BATCH: Final = 64
"""Chunks convolved at once: the first layer takes 6 MB for each in float32."""


def row_count(frames: int) -> int:
    """Rows for an utterance of so many mel frames: 13 for each second, and the rest halved three times, rounded up."""
    return frames // CHUNK * CHUNK_ROWS + _conv_length(frames % CHUNK)


def _conv_length(frames: int) -> int:
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames


@dataclass(frozen=True, slots=True)
class MelWindow:
    """Scaled mel frames ``[bands, frames]`` of one attention window.

    ``padded``: a last chunk that is not full sees silence behind it up to a second. In an utterance with a full chunk
    it must, as the convolutions of the released model do; a shorter utterance is not padded.
    """

    mel: Tensor
    padded: bool = True


class AudioAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, rows: Tensor, mask: Tensor | None) -> Tensor:
        queries, keys, values = (
            projection(rows).view(*rows.shape[:2], self.heads, -1).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        seen = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return cast(Tensor, self.out_proj(seen.transpose(1, 2).flatten(2)))


class AudioLayer(nn.Module):
    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        width, inner = config.d_model, config.encoder_ffn_dim
        self.self_attn = AudioAttention(width, config.encoder_attention_heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, rows: Tensor, mask: Tensor | None) -> Tensor:
        rows = rows + self.self_attn(self.self_attn_layer_norm(rows), mask)
        return rows + cast(Tensor, self.fc2(functional.gelu(self.fc1(self.final_layer_norm(rows)))))


class AudioTower(nn.Module):
    """The network; parameters are named as in the checkpoint below ``thinker.audio_tower.``."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        channels, width = config.downsample_hidden_size, config.d_model
        self.conv2d1 = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.conv2d2 = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.conv2d3 = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.conv_out = nn.Linear(channels * _conv_length(config.num_mel_bins), width, bias=False)
        self.layers = nn.ModuleList([AudioLayer(config) for _ in range(config.encoder_layers)])
        self.ln_post = nn.LayerNorm(width)
        self.proj1 = nn.Linear(width, width)
        self.proj2 = nn.Linear(width, config.output_dim)

    def convolve(self, mel: Tensor, frames: Tensor) -> Tensor:
        """Chunks ``[chunks, bands, frames]``, of which each one's first ``frames`` exist, to ``[chunks, rows, width]``.

        What does not exist is zero before every layer, so that a short chunk gives the same beside longer ones.
        """
        signal = mel.unsqueeze(1)
        for layer in (self.conv2d1, self.conv2d2, self.conv2d3):
            signal = functional.gelu(layer(signal))
            frames = (frames + 1) // 2
            signal = signal * (torch.arange(signal.shape[-1], device=mel.device) < frames[:, None])[:, None, None]
        return cast(Tensor, self.conv_out(signal.permute(0, 3, 1, 2).flatten(2)))

    def attend(self, rows: Tensor, mask: Tensor | None) -> Tensor:
        """Windows ``[windows, rows, width]``; ``mask``: bool ``[windows, 1, 1, rows]``, which rows exist."""
        for layer in self.layers:
            rows = layer(rows, mask)
        return cast(Tensor, self.proj2(functional.gelu(self.proj1(self.ln_post(rows)))))


class AudioEncoder:
    """The tower with a checkpoint's weights. Not thread-safe."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device | str, dtype: torch.dtype) -> None:
        self.config = checkpoint.config.thinker.audio
        with torch.device("meta"):
            self._tower = AudioTower(self.config)
        checkpoint.load(self._tower, Part.AUDIO_ENCODER, device=device, dtype=dtype)
        self._device, self._dtype = device, dtype
        self._positions = _sinusoids(CHUNK_ROWS, self.config.d_model).to(device, dtype)

    @torch.inference_mode()
    def encode(self, windows: Sequence[MelWindow]) -> list[Tensor]:
        """Each window's rows ``[row_count(frames), output_dim]``, of the weights' type and on their device."""
        chunks = [chunk for window in windows for chunk in torch.split(window.mel, CHUNK, dim=1)]
        existing = [
            CHUNK if window.padded else frames
            for window in windows
            for frames in (min(CHUNK, window.mel.shape[1] - start) for start in range(0, window.mel.shape[1], CHUNK))
        ]
        embedded = self._embed(chunks, existing).flatten(0, 1)
        rows, first = [], 0
        for window in windows:
            rows.append(embedded[first : first + row_count(window.mel.shape[1])])
            first += math.ceil(window.mel.shape[1] / CHUNK) * CHUNK_ROWS
        return self._attend(rows)

    def _embed(self, chunks: Sequence[Tensor], existing: Sequence[int]) -> Tensor:
        """``[chunks, 13, width]``, with positions; rows of what does not exist are meaningless."""
        padded = torch.zeros(len(chunks), self.config.num_mel_bins, CHUNK)
        for row, chunk in zip(padded, chunks, strict=True):
            row[:, : chunk.shape[1]] = chunk
        mel, frames = padded.to(self._device, self._dtype), torch.tensor(existing, device=self._device)
        groups = zip(torch.split(mel, _CONV_BATCH), torch.split(frames, _CONV_BATCH), strict=True)
        return torch.cat([self._tower.convolve(*group) for group in groups]) + self._positions

    def _attend(self, rows: list[Tensor]) -> list[Tensor]:
        lengths = [len(each) for each in rows]
        mask = None
        if min(lengths) < max(lengths):
            columns = torch.arange(max(lengths), device=self._device)
            mask = (columns < torch.tensor(lengths, device=self._device)[:, None])[:, None, None]
        encoded = self._tower.attend(nn.utils.rnn.pad_sequence(rows, batch_first=True), mask)
        return [row[:length] for row, length in zip(encoded, lengths, strict=True)]


def _sinusoids(length: int, width: int) -> Tensor:
    """float32 ``[length, width]``: sines, then cosines, of wavelengths from 2 pi to 10 000 times that."""
    half = width // 2
    scales = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half).float())
    angles = torch.arange(length).float()[:, None] * scales
    return torch.cat((angles.sin(), angles.cos()), dim=1)
