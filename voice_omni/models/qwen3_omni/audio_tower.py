"""The audio tower: windows of mel frames to rows for the thinker, many windows in one batch.

A *chunk* is one second (100 mel frames); its convolutions and positions know nothing of other chunks, and it gives 13
rows. A *window* is a whole number of chunks that attend to each other; nothing passes from window to window. So a
window's rows depend on the window alone, whichever others it is batched with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import AudioConfig
from voice_omni.models.qwen3_omni.device_queue import Compute, queue_on
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


@dataclass(frozen=True, slots=True)
class _Place:
    """Windows of one batch: ``mel`` float32 ``[windows, chunks, bands, 100]``; ``frames`` ``[windows, chunks]`` of each
    chunk that exist, or are silence that is meant; ``lengths`` ``[windows]``, rows of each; ``rows`` float32
    ``[windows, 13 * chunks, output_dim]``, what becomes of them."""

    mel: Tensor
    frames: Tensor
    lengths: Tensor
    rows: Tensor

    @classmethod
    def of(cls, windows: int, chunks: int, config: AudioConfig, **where: Any) -> _Place:
        return cls(
            torch.zeros(windows, chunks, config.num_mel_bins, CHUNK, **where),
            torch.full((windows, chunks), CHUNK, **where),
            torch.full((windows,), chunks * CHUNK_ROWS, **where),
            torch.zeros(windows, chunks * CHUNK_ROWS, config.output_dim, **where),
        )

    def first(self, windows: int) -> _Place:
        return _Place(self.mel[:windows], self.frames[:windows], self.lengths[:windows], self.rows[:windows])

    def write(self, windows: Sequence[MelWindow]) -> None:
        """The windows, in host memory; what is left of it are whole windows of silence."""
        self.mel.zero_()
        self.frames.fill_(CHUNK)
        self.lengths.fill_(self.rows.shape[1])
        for number, window in enumerate(windows):
            count = window.mel.shape[1]
            self.lengths[number] = row_count(count)
            for chunk, part in enumerate(torch.split(window.mel, CHUNK, dim=1)):
                self.mel[number, chunk, :, : part.shape[1]] = part
            if not window.padded:
                self.frames[number, -(-count // CHUNK) - 1] = count - (count - 1) // CHUNK * CHUNK

    def take(self, other: _Place) -> None:
        """Copy what has been written there, without waiting."""
        self.mel.copy_(other.mel, non_blocking=True)
        self.frames.copy_(other.frames, non_blocking=True)
        self.lengths.copy_(other.lengths, non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Program:
    """A number of windows that has been prepared: ``run`` computes ``place.rows`` from the rest, in place. ``host``:
    the same in host memory."""

    host: _Place
    place: _Place
    run: Compute


class AudioEncoder:
    """The tower with a checkpoint's weights. Not thread-safe.

    On a GPU most of a small batch's time is spent on launching some five hundred kernels. Numbers of windows that have
    been prepared are one CUDA graph each, in which shorter windows are filled up: their rows are the first of their
    places.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device | str, dtype: torch.dtype) -> None:
        self.config = checkpoint.config.thinker.audio
        with torch.device("meta"):
            self._tower = AudioTower(self.config)
        checkpoint.load(self._tower, Part.AUDIO_ENCODER, device=device, dtype=dtype)
        self._device, self._dtype = torch.device(device), dtype
        self._positions = _sinusoids(CHUNK_ROWS, self.config.d_model).to(device, dtype)
        self._queue = queue_on(self._device, dtype)
        self._mark = self._queue.mark()
        self._programs: dict[int, _Program] = {}
        self._prepared_chunks = 0
        # The weights have not been written in this queue.
        self._queue.settle()

    @torch.inference_mode()
    def prepare(self, counts: Iterable[int], chunks: int) -> None:
        """Give these numbers of windows, of so many chunks at most, their places and, on a GPU, their graphs. For
        once, before anything is encoded."""
        fitting = sorted({count for count in counts if count * chunks <= _CONV_BATCH}, reverse=True)
        if not fitting:
            return
        host = _Place.of(fitting[0], chunks, self.config, pin_memory=self._queue.pinned)
        largest = _Place.of(fitting[0], chunks, self.config, device=self._device)
        for count in fitting:
            place = largest.first(count)
            run = self._queue.captured(partial(self._compute_into, place))
            self._programs[count] = _Program(host.first(count), place, run)
        self._prepared_chunks = chunks
        self._queue.settle()

    @torch.inference_mode()
    def encode(self, windows: Sequence[MelWindow]) -> list[Tensor]:
        """Each window's rows, float32 ``[row_count(frames), output_dim]`` in host memory."""
        rows: dict[int, Tensor] = {}
        for chunks, numbers in self._alike(windows).items():
            together = max(self._programs) if chunks <= self._prepared_chunks else len(numbers)
            for start in range(0, len(numbers), together):
                part = numbers[start : start + together]
                rows |= zip(part, self._encoded([windows[number] for number in part], chunks), strict=True)
        return [rows[number] for number in range(len(windows))]

    def _alike(self, windows: Sequence[MelWindow]) -> dict[int, list[int]]:
        """Which windows are computed together, by their chunks: no work is spent on what does not exist, unless a
        prepared place holds it."""
        alike: dict[int, list[int]] = {}
        for number, window in enumerate(windows):
            chunks = max(-(-window.mel.shape[1] // CHUNK), self._prepared_chunks)
            alike.setdefault(chunks, []).append(number)
        return alike

    def _encoded(self, windows: Sequence[MelWindow], chunks: int) -> list[Tensor]:
        if chunks <= self._prepared_chunks:
            program = self._programs[min(count for count in self._programs if count >= len(windows))]
            program.host.write(windows)
            with self._queue.entered():
                program.place.take(program.host)
                program.run()
                program.host.rows.copy_(program.place.rows, non_blocking=True)
                self._mark.set()
            self._mark.wait()
            rows = program.host.rows
        else:
            host = _Place.of(len(windows), chunks, self.config)
            host.write(windows)
            rows = self._computed(host)
        lengths = (row_count(window.mel.shape[1]) for window in windows)
        # The place is written to again, and rows are kept that would hold on to all of it.
        return [row[:length].clone() for row, length in zip(rows[: len(windows)], lengths, strict=True)]

    def _compute_into(self, place: _Place) -> None:
        with self._queue.kernels():
            place.rows.copy_(self._forward(place.mel, place.frames, _existing(place.lengths, place.rows.shape[1])))

    def _computed(self, host: _Place) -> Tensor:
        """Without filling up what no window of the batch has."""
        most = int(host.lengths.max())
        alike = int(host.lengths.min()) == most
        with self._queue.entered(), self._queue.kernels():
            mask = None if alike else _existing(host.lengths.to(self._device), most)
            return self._forward(host.mel.to(self._device), host.frames.to(self._device), mask, most).float().cpu()

    def _forward(self, mel: Tensor, frames: Tensor, mask: Tensor | None, most: int | None = None) -> Tensor:
        """Places of windows as in :class:`_Place` to ``[windows, most, output_dim]``. ``most``: rows of a window that
        exist at most; None: all. ``mask``: bool ``[windows, 1, 1, most]``, which do."""
        parts = zip(
            torch.split(mel.flatten(0, 1), _CONV_BATCH), torch.split(frames.flatten(), _CONV_BATCH), strict=True
        )
        chunks = torch.cat([self._tower.convolve(part.to(self._dtype), count) for part, count in parts])
        rows = (chunks + self._positions).view(len(mel), -1, self.config.d_model)
        return self._tower.attend(rows[:, :most], mask)


def _existing(lengths: Tensor, most: int) -> Tensor:
    return (torch.arange(most, device=lengths.device) < lengths[:, None])[:, None, None]


def _sinusoids(length: int, width: int) -> Tensor:
    """float32 ``[length, width]``: sines, then cosines, of wavelengths from 2 pi to 10 000 times that."""
    half = width // 2
    scales = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half).float())
    angles = torch.arange(length).float()[:, None] * scales
    return torch.cat((angles.sin(), angles.cos()), dim=1)
