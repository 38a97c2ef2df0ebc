"""Pictures to patches: sizing, normalisation and the order in which the vision tower reads them.

The numbers are those of the released processor (bicubic, CLIP's patch layout with two frames for each patch); what a
checkpoint sets differently stands in its ``preprocessor_config.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from voice_omni.models.qwen3_omni.config import VisionConfig
from voice_omni.proto.errors import OmniError

Patches = NDArray[np.float32]

_MAX_ASPECT: Final = 200


@dataclass(frozen=True, slots=True)
class Grid:
    """Patches of a picture or a film along time, height and width; time counts pairs of frames."""

    time: int
    height: int
    width: int

    @property
    def patches(self) -> int:
        return self.time * self.height * self.width

    def rows(self, merge: int) -> int:
        """Rows for the thinker, each of ``merge x merge`` patches; as many placeholders stand in the prompt."""
        return self.patches // merge**2


@dataclass(frozen=True)
class PatchSettings:
    """How pictures become patches. ``min_pixels`` and ``max_pixels`` bound a picture's area after resizing."""

    patch_size: int = 16
    temporal_patch_size: int = 2
    merge_size: int = 2
    min_pixels: int = 56 * 56
    max_pixels: int = 28 * 28 * 1280
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    @classmethod
    def load(cls, folder: Path, vision: VisionConfig) -> PatchSettings:
        """A checkpoint's: sizes from its configuration, the rest from ``preprocessor_config.json`` if it has one.

        Raises :class:`OmniError` ``weights_corrupt`` for a file that cannot be read.
        """
        file = folder / "preprocessor_config.json"
        try:
            stated: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
            size = stated.get("size") or {}
            return cls(
                vision.patch_size,
                vision.temporal_patch_size,
                vision.spatial_merge_size,
                int(stated.get("min_pixels") or size.get("shortest_edge") or cls.min_pixels),
                int(stated.get("max_pixels") or size.get("longest_edge") or cls.max_pixels),
                *(_channels(stated.get(name, [0.5] * 3)) for name in ("image_mean", "image_std")),
            )
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise OmniError("weights_corrupt", f"{file}: {error}", param=file.name) from error


def _channels(values: Sequence[float]) -> tuple[float, float, float]:
    red, green, blue = values
    return float(red), float(green), float(blue)


def fitted_size(height: int, width: int, settings: PatchSettings) -> tuple[int, int]:
    """The size that a picture is resized to: whole merge blocks, an area within bounds, nearly the same shape.

    Raises :class:`OmniError` ``invalid_value`` if one side is more than 200 times the other.
    """
    if max(height, width) > _MAX_ASPECT * min(height, width):
        raise OmniError("invalid_value", f"a picture of {width} x {height} pixels is too narrow", param="image")
    factor = settings.patch_size * settings.merge_size
    fitted_height, fitted_width = round(height / factor) * factor, round(width / factor) * factor
    if fitted_height * fitted_width > settings.max_pixels:
        shrink = math.sqrt(height * width / settings.max_pixels)
        fitted_height = max(factor, math.floor(height / shrink / factor) * factor)
        fitted_width = max(factor, math.floor(width / shrink / factor) * factor)
    elif fitted_height * fitted_width < settings.min_pixels:
        grow = math.sqrt(settings.min_pixels / (height * width))
        fitted_height = math.ceil(height * grow / factor) * factor
        fitted_width = math.ceil(width * grow / factor) * factor
    return fitted_height, fitted_width


def patchify(frames: Sequence[Image.Image], settings: PatchSettings) -> tuple[Patches, Grid]:
    """Frames of one size, RGB, to float32 ``[patches, channels * temporal * side * side]`` and their grid.

    The last frame is repeated to fill a pair, so that a picture is a film of one pair. Raises what
    :func:`fitted_size` does.
    """
    height, width = fitted_size(frames[0].height, frames[0].width, settings)
    resized = [_normalised(frame.resize((width, height), Image.Resampling.BICUBIC), settings) for frame in frames]
    pair, side, merge = settings.temporal_patch_size, settings.patch_size, settings.merge_size
    resized += [resized[-1]] * (-len(resized) % pair)
    grid = Grid(len(resized) // pair, height // side, width // side)
    stacked = np.stack(resized).reshape(
        *(grid.time, pair, 3),
        *(grid.height // merge, merge, side),
        *(grid.width // merge, merge, side),
    )
    # time, block row, block column, row and column in the block, then channel, frame and the pixels of one patch
    ordered = stacked.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return np.ascontiguousarray(ordered).reshape(grid.patches, -1), grid


def _normalised(frame: Image.Image, settings: PatchSettings) -> NDArray[np.float32]:
    """``[3, height, width]``, each channel brought to the mean and deviation that the tower was trained on."""
    pixels = np.asarray(frame, np.float32).transpose(2, 0, 1) / np.float32(255)
    mean, std = (np.array(values, np.float32)[:, None, None] for values in (settings.mean, settings.std))
    return np.asarray((pixels - mean) / std, np.float32)
