"""The causal layers of code2wav, able to go on where they stopped.

All layers see a sequence in pieces and give what they would give for the whole. What a layer must remember of the past
is the last few steps of one of its inputs, a :class:`History`: a convolution's left context, a transposed convolution's
last step, an attention's sliding window of keys and values. The histories of many streams are stacked in tables with a
row (slot) for each stream, so that streams with pieces of different lengths run in one batch: pieces are padded on the
right, which a causal layer cannot see. Layout and names follow the released checkpoint; the signal's form is float
``[rows, channels, steps]``, in the transformer ``[rows, frames, width]``.

No layer waits for the device or lets a value decide what is done, so that a call can be captured in a CUDA graph.
"""

from __future__ import annotations

import threading
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voice_omni.models.qwen3_omni.config import Code2WavConfig
from voice_omni.proto.errors import OmniError


class History(nn.Module):
    """A place in the tables: the last steps of a signal, ``shape`` without rows, steps on ``axis``. Has no weights.

    ``dtype``: of what is kept; None: the tables'.
    """

    def __init__(self, shape: tuple[int, int], axis: int) -> None:
        super().__init__()
        self.shape = shape
        self.axis = axis
        self.steps = shape[axis]
        self.index = -1
        self.dtype: torch.dtype | None = None


class Tables:
    """The histories of ``slots`` streams, and of one more in :attr:`scratch`, for rows that only fill up a batch.

    :attr:`interrupted` makes the batch that is being computed raise before its next layer.
    """

    def __init__(self, model: nn.Module, slots: int, device: torch.device | str, dtype: torch.dtype) -> None:
        histories = [module for module in model.modules() if isinstance(module, History)]
        for index, history in enumerate(histories):
            history.index = index
        self.scratch = slots
        self.histories = [
            torch.zeros(slots + 1, *history.shape, device=device, dtype=history.dtype or dtype) for history in histories
        ]
        self.interrupted = threading.Event()


class Rows:
    """The rows of one batch on their way through the layers: tensors on the device, and nothing read from it.

    ``slots``: long ``[rows]``. ``position``: long ``[rows]``, the frames before this piece; ``first``: all rows begin
    their streams here; otherwise none does. ``lengths``: long ``[rows]``, the steps of each row that count at the
    present rate, the rest being padding; None: all count.
    """

    def __init__(self, tables: Tables, slots: Tensor, position: Tensor, first: bool, lengths: Tensor | None) -> None:
        self.position = position
        self._tables = tables
        self._slots = slots
        self._first = first
        self._lengths = lengths

    def extend(self, history: History, signal: Tensor) -> Tensor:
        """The signal behind its past, ``history.steps`` longer; the past then moves on.

        A stream begins with zeros, as a causal layer pads. Raises :class:`OmniError` ``aborted`` if interrupted.
        """
        table = self._table(history)
        past = signal.new_zeros(len(signal), *history.shape) if self._first else table.index_select(0, self._slots)
        axis = history.axis + 1  # behind that of the rows
        joined = torch.cat((past, signal), axis)
        if self._lengths is None:
            kept = joined.narrow(axis, joined.shape[axis] - history.steps, history.steps)
        else:
            kept = _cut(joined, axis, self._lengths, history.steps)
        table.index_copy_(0, self._slots, kept)
        return joined

    def past(self, history: History) -> tuple[Tensor, Tensor, Tensor | None, bool]:
        """What reads and moves on a history by itself needs: the table, ``slots``, ``lengths``, ``first``.

        Raises :class:`OmniError` ``aborted`` if interrupted.
        """
        return self._table(history), self._slots, self._lengths, self._first

    def upsampled(self, signal: Tensor, rate: int, trimmed: bool, axis: int = 2) -> Tensor:
        """Account for a layer that gave ``rate`` steps for each; ``trimmed``: a stream's first group is dropped.
        ``axis``: of the steps."""
        dropped = rate if trimmed and self._first else 0
        if self._lengths is not None:
            self._lengths = self._lengths * rate - dropped
        return signal.narrow(axis, dropped, signal.shape[axis] - dropped)

    def _table(self, history: History) -> Tensor:
        if self._tables.interrupted.is_set():
            raise OmniError("aborted", "the decoding was interrupted")
        return self._tables.histories[history.index]


def _cut(signal: Tensor, axis: int, starts: Tensor, steps: int) -> Tensor:
    """``steps`` steps of each row from its own start on."""
    index = starts[:, None] + torch.arange(steps, device=signal.device)
    index = index[:, :, None] if axis == 1 else index[:, None, :]
    shape = list(signal.shape)
    shape[axis] = steps
    return signal.gather(axis, index.expand(shape))


class CausalConv(nn.Module):
    """A convolution that sees the present step and ``(kernel - 1) * dilation`` before it."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.history = History((inputs, (kernel - 1) * dilation), 1) if kernel > 1 else None

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        return cast(Tensor, self.conv(rows.extend(self.history, signal) if self.history is not None else signal))


class CausalTransConv(nn.Module):
    """Upsampling by ``rate`` with a kernel of one or two groups of ``rate`` samples.

    With two, a step's output group overlaps the one before: it is the sum of two steps' parts. The released decoder
    drops one group at each end of the whole signal, so that the group of a stream's first step, and the half that the
    last one leaves over, are never heard.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=rate)
        self.rate = rate
        self.history = History((inputs, 1), 1) if kernel > rate else None

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        if self.history is None:
            return rows.upsampled(self.conv(signal), self.rate, trimmed=False)
        groups = self.conv(rows.extend(self.history, signal))
        return rows.upsampled(groups[..., self.rate : -self.rate], self.rate, trimmed=True)


class ConvNeXtBlock(nn.Module):
    """https://arxiv.org/abs/2201.03545 in one dimension, causal."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(width, width, 7, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.empty(width))

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        inner = self.norm(self.dwconv(signal, rows).transpose(1, 2))
        inner = self.gamma * self.pwconv2(functional.gelu(self.pwconv1(inner)))
        return signal + cast(Tensor, inner.transpose(1, 2))


class SnakeBeta(nn.Module):
    """x + sin(exp(alpha) x)^2 / exp(beta), per channel (https://arxiv.org/abs/2006.08195; beta as in BigVGAN)."""

    rate: Tensor
    share: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(channels))
        self.beta = nn.Parameter(torch.empty(channels))

    def prepare(self) -> None:
        """Compute what each step needs of the weights; once, when they are there."""
        rate, share = self.factors()
        self.rate, self.share = rate[:, None].to(self.alpha.dtype), share[:, None].to(self.beta.dtype)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Float32 ``[channels]``: what a step is multiplied by inside the sine, and the squared sine by."""
        return self.alpha.float().exp(), 1.0 / (self.beta.float().exp() + 1e-9)

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        wave = (signal * self.rate).sin_().square_()
        return torch.addcmul(signal, wave, self.share)


class ResidualUnit(nn.Module):
    """A dilated convolution and a pointwise one, each behind its activation."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation)
        self.act2 = SnakeBeta(channels)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        inner = self.conv1(self.act1(signal, rows), rows)
        return signal + cast(Tensor, self.conv2(self.act2(inner, rows), rows))


class Upsampling(nn.ModuleList):
    """To ``ratio`` times as many steps of the same width."""

    def __init__(self, width: int, ratio: int) -> None:
        super().__init__([CausalTransConv(width, width, ratio, ratio), ConvNeXtBlock(width)])

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        for layer in self:
            signal = layer(signal, rows)
        return signal


class DecoderBlock(nn.Module):
    """Upsampling by ``rate`` to half the channels, then three residual units."""

    def __init__(self, inputs: int, rate: int) -> None:
        super().__init__()
        outputs = inputs // 2
        units = [ResidualUnit(outputs, dilation) for dilation in (1, 3, 9)]
        self.block = nn.ModuleList([SnakeBeta(inputs), CausalTransConv(inputs, outputs, 2 * rate, rate), *units])

    def forward(self, signal: Tensor, rows: Rows) -> Tensor:
        for layer in self.block:
            signal = layer(signal, rows)
        return signal


class Attention(nn.Module):
    """Attention to the last ``sliding_window`` frames, the present one included; rotary positions count from 0."""

    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        width, kept = config.hidden_size, config.sliding_window - 1
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.keys, self.values = History((kept, width), 0), History((kept, width), 0)

    def forward(self, frames: Tensor, rows: Rows, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """``frames``: ``[rows, frames, width]``; ``mask``: ``[rows, 1, frames, kept + frames]``, to be added."""
        queries = rotate(self._split(self.q_proj(frames)), rotation)
        keys = rotate(self._split(self.k_proj(frames)), rotation).flatten(2)
        keys = self._split(rows.extend(self.keys, keys))
        values = self._split(rows.extend(self.values, self.v_proj(frames)))
        seen = functional.scaled_dot_product_attention(
            queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask
        )
        return cast(Tensor, self.o_proj(seen.transpose(1, 2).flatten(2)))

    def _split(self, frames: Tensor) -> Tensor:
        """``[rows, frames, width]`` to ``[rows, frames, heads, width / heads]``."""
        return frames.view(*frames.shape[:2], self.heads, -1)


class GatedMlp(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, frames: Tensor) -> Tensor:
        return cast(Tensor, self.down_proj(functional.silu(self.gate_proj(frames)) * self.up_proj(frames)))


class LayerScale(nn.Module):
    """https://arxiv.org/abs/2103.17239"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))

    def forward(self, frames: Tensor) -> Tensor:
        return self.scale * frames


class TransformerLayer(nn.Module):
    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = Attention(config)
        self.mlp = GatedMlp(width, config.intermediate_size)
        self.input_layernorm = nn.RMSNorm(width, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=config.rms_norm_eps)
        self.self_attn_layer_scale = LayerScale(width)
        self.mlp_layer_scale = LayerScale(width)

    def forward(self, frames: Tensor, rows: Rows, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        attended = self.self_attn(self.input_layernorm(frames), rows, rotation, mask)
        frames = frames + self.self_attn_layer_scale(attended)
        return frames + cast(Tensor, self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(frames))))


class SlidingTransformer(nn.Module):
    """The frames' transformer: ``[rows, frames, width]`` to the same."""

    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList([TransformerLayer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self._kept = config.sliding_window - 1
        self._theta = config.rope.theta
        self._half = config.head_dim // 2

    def forward(self, frames: Tensor, rows: Rows) -> Tensor:
        steps = torch.arange(frames.shape[1], device=frames.device)
        rotation = self._rotation(rows.position[:, None] + steps, frames.dtype)
        mask = self._mask(rows.position, steps, frames.dtype)
        for layer in self.layers:
            frames = layer(frames, rows, rotation, mask)
        return cast(Tensor, self.norm(frames))

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosine and sine ``[rows, frames, 1, head_dim]``, computed in float32 whatever the weights' type is."""
        exponents = torch.arange(self._half, device=positions.device, dtype=torch.float32) / self._half
        angles = positions[:, :, None, None] * (1.0 / self._theta**exponents)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def _mask(self, position: Tensor, steps: Tensor, dtype: torch.dtype) -> Tensor:
        """Frame i of the piece sees columns i to i + kept of past and piece joined, as far as they exist: 0 for what
        is seen, and minus infinity."""
        columns = torch.arange(self._kept + len(steps), device=steps.device)
        window = (columns >= steps[:, None]) & (columns <= steps[:, None] + self._kept)
        exists = columns >= self._kept - position[:, None]
        seen = (window & exists[:, None, :])[:, None]
        return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, -torch.inf)


def rotate(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of ``[rows, frames, heads, head_dim]``, halves paired (https://arxiv.org/abs/2104.09864)."""
    cosine, sine = rotation
    left, right = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-right, left), dim=-1) * sine
