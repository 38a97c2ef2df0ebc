"""The stage ``image_encoder``: frames of pictures and films to rows for the thinker (see :mod:`.vision_tower`).

A pair of frames is a grid, which attends to nothing outside it: each is encoded as it comes. Result: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from PIL import Image

from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.models.qwen3_omni.patches import PatchSettings, patchify
from voice_omni.models.qwen3_omni.vision_tower import VisionEncoder, VisionRows
from voice_omni.models.qwen3_omni.wire import FRAMES, MEDIUM, ROWS
from voice_omni.proto.payload import StagePayload

_CHUNK_ROWS: Final = 128
"""Rows of one chunk, so that it fits any relay: 4 MB with three layers of deepstack at the released width."""


class ImageRunner:
    """A :class:`~voice_omni.model_runner.interface.BatchRunner`; costs are megapixels."""

    def __init__(self, encoder: VisionEncoder, patches: PatchSettings) -> None:
        self._encoder = encoder
        self._patches = patches

    def open(self, payload: StagePayload) -> None:
        """No state: each chunk stands for itself."""

    def cost(self, work: Work[None]) -> float:
        return float(sum(chunk.data[FRAMES].size for chunk in work.chunks)) / 3e6

    def run(self, batch: Sequence[Work[None]]) -> Sequence[Outcome]:
        chunks = [chunk for work in batch for chunk in work.chunks]
        pictures = [
            patchify([Image.fromarray(frame) for frame in chunk.data[FRAMES]], self._patches) for chunk in chunks
        ]
        encoded = iter(self._encoder.encode(pictures))
        outcomes = []
        for work in batch:
            outcome = Outcome(result={} if work.ended else None)
            for chunk in work.chunks:
                outcome.emits += _emits(chunk.data[MEDIUM], next(encoded))
            outcomes.append(outcome)
        return outcomes

    def close(self, state: None) -> None:
        """Nothing to close."""


def _emits(medium: int, encoded: VisionRows) -> Iterator[Emit]:
    rows = encoded.rows.float().cpu().numpy()
    deepstack = torch.stack(encoded.deepstack).float().cpu().numpy()
    for start in range(0, len(rows), _CHUNK_ROWS):
        part = slice(start, start + _CHUNK_ROWS)
        yield Emit({ROWS: {"medium": medium, "seen": rows[part], "deepstack": deepstack[:, part]}})
