"""The vision tower: patches of a picture or a film to rows for the thinker.

A film is a sequence of *grids*, each made of ``temporal_patch_size`` frames; patches attend to those of their own grid.
So each picture or film runs as one batch of grids of one size, whatever else is encoded beside it. Patches come in
merge-block order: the ``merge x merge`` patches that become one row stand together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import VisionConfig
from voice_omni.models.qwen3_omni.layout import Part
from voice_omni.models.qwen3_omni.patches import Grid

_EPSILON: Final = 1e-6
_ROPE_THETA: Final = 10_000.0

Rotation = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class VisionRows:
    """``rows``: ``[n, out_hidden_size]``, in the placeholders' order. ``deepstack``: as many rows for each of the
    thinker's first layers, to be added to that layer's output at the same positions."""

    rows: Tensor
    deepstack: tuple[Tensor, ...]


class PatchEmbedding(nn.Module):
    """A convolution whose kernel is one patch: a product with the flattened patch."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        kernel = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.hidden_size, kernel, stride=kernel)

    def forward(self, patches: Tensor) -> Tensor:
        return functional.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


class VisionAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, patches: Tensor, rotation: Rotation) -> Tensor:
        queries, keys, values = self.qkv(patches).view(*patches.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(_rotate(queries, rotation), _rotate(keys, rotation), values)
        return cast(Tensor, self.proj(seen.transpose(1, 2).flatten(2)))


class VisionMlp(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(width, inner)
        self.linear_fc2 = nn.Linear(inner, width)

    def forward(self, patches: Tensor) -> Tensor:
        return cast(Tensor, self.linear_fc2(functional.gelu(self.linear_fc1(patches), approximate="tanh")))


class VisionBlock(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden_size, eps=_EPSILON)
        self.norm2 = nn.LayerNorm(config.hidden_size, eps=_EPSILON)
        self.attn = VisionAttention(config.hidden_size, config.num_heads)
        self.mlp = VisionMlp(config.hidden_size, config.intermediate_size)

    def forward(self, patches: Tensor, rotation: Rotation) -> Tensor:
        patches = patches + self.attn(self.norm1(patches), rotation)
        return patches + cast(Tensor, self.mlp(self.norm2(patches)))


class PatchMerger(nn.Module):
    """``merge x merge`` patches to one row. ``joint``: normalise the joined patches, not each alone."""

    def __init__(self, config: VisionConfig, joint: bool) -> None:
        super().__init__()
        self._merged = config.hidden_size * config.spatial_merge_size**2
        self._joint = joint
        self.ln_q = nn.LayerNorm(self._merged if joint else config.hidden_size, eps=_EPSILON)
        self.mlp = nn.Sequential(
            nn.Linear(self._merged, self._merged), nn.GELU(), nn.Linear(self._merged, config.out_hidden_size)
        )

    def forward(self, patches: Tensor) -> Tensor:
        if self._joint:
            return cast(Tensor, self.mlp(self.ln_q(patches.reshape(-1, self._merged))))
        return cast(Tensor, self.mlp(self.ln_q(patches).reshape(-1, self._merged)))


class VisionTower(nn.Module):
    """The network; parameters are named as in the checkpoint below ``thinker.visual.``."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.patch_embed = PatchEmbedding(config)
        self.pos_embed = nn.Embedding(config.num_position_embeddings, config.hidden_size)
        self.blocks = nn.ModuleList([VisionBlock(config) for _ in range(config.depth)])
        self.merger = PatchMerger(config, joint=False)
        self.merger_list = nn.ModuleList(PatchMerger(config, joint=True) for _ in config.deepstack_visual_indexes)
        self._taps = {block: index for index, block in enumerate(config.deepstack_visual_indexes)}
        self._merge = config.spatial_merge_size
        self._side = int(config.num_position_embeddings**0.5)
        self._head_dim = config.hidden_size // config.num_heads

    def forward(self, patches: Tensor, height: int, width: int) -> VisionRows:
        """Patches ``[grids, height * width, channels * frames * side * side]`` of grids of this size in patches."""
        signal = self.patch_embed(patches)
        signal = signal + self._positions(height, width, patches.device).to(signal.dtype)
        rotation = self._rotation(height, width, patches.device)
        deepstack: list[Tensor] = []
        for index, block in enumerate(self.blocks):
            signal = block(signal, rotation)
            if (tap := self._taps.get(index)) is not None:
                deepstack.append(self.merger_list[tap](signal))
        return VisionRows(self.merger(signal), tuple(deepstack))

    def _blocks_first(self, raster: Tensor) -> Tensor:
        """``[height, width, ...]`` to ``[height * width, ...]`` in merge-block order."""
        height, width, *rest = raster.shape
        blocks = raster.reshape(height // self._merge, self._merge, width // self._merge, self._merge, *rest)
        return blocks.transpose(1, 2).reshape(height * width, *rest)

    def _positions(self, height: int, width: int, device: torch.device) -> Tensor:
        """The learned square of positions, stretched bilinearly over the grid, corners on corners."""
        table = self.pos_embed.weight.view(self._side, self._side, -1)
        for axis, size in enumerate((height, width)):
            place = torch.arange(size, device=device, dtype=torch.float32) * (self._side - 1) / max(size - 1, 1)
            below = place.long()
            above = (below + 1).clamp(max=self._side - 1)
            share = (place - below).view(-1, *([1] * (2 - axis)))
            table = table.index_select(axis, below) * (1 - share) + table.index_select(axis, above) * share
        return self._blocks_first(table)

    def _rotation(self, height: int, width: int, device: torch.device) -> Rotation:
        """Cosine and sine float32 ``[height * width, head_dim]``: half of the frequencies follow the row, half the
        column."""
        quarter = self._head_dim // 4
        exponents = torch.arange(quarter, device=device, dtype=torch.float32) / quarter
        frequencies = 1.0 / _ROPE_THETA**exponents
        rows = torch.arange(height, device=device)[:, None, None] * frequencies
        columns = torch.arange(width, device=device)[None, :, None] * frequencies
        angles = torch.cat((rows.expand(-1, width, -1), columns.expand(height, -1, -1)), dim=-1)
        angles = self._blocks_first(torch.cat((angles, angles), dim=-1))
        return angles.cos(), angles.sin()


def _rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """Rotary embedding of ``[grids, heads, patches, head_dim]``, computed in float32."""
    cosine, sine = rotation
    left, right = heads.float().chunk(2, dim=-1)
    return (heads.float() * cosine + torch.cat((-right, left), dim=-1) * sine).to(heads.dtype)


class VisionEncoder:
    """The tower with a checkpoint's weights. Not thread-safe."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device | str, dtype: torch.dtype) -> None:
        with torch.device("meta"):
            self._tower = VisionTower(checkpoint.config.thinker.vision)
        checkpoint.load(self._tower, Part.IMAGE_ENCODER, device=device, dtype=dtype)
        self._device, self._dtype = device, dtype

    @torch.inference_mode()
    def encode(self, pictures: Sequence[tuple[Any, Grid]]) -> list[VisionRows]:
        """Each picture's or film's rows, of the weights' type and on their device.

        A picture is its patches, float32 numpy ``[grid.patches, features]`` as :mod:`.patches` makes them, and a grid.
        """
        return [
            self._tower(
                torch.as_tensor(patches).to(self._device, self._dtype).view(grid.time, grid.height * grid.width, -1),
                grid.height,
                grid.width,
            )
            for patches, grid in pictures
        ]
