"""A written prompt as segments (see :mod:`.assembly`): text, the places of media, and a sound that is still coming."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from voice_omni.models.qwen3_omni.assembly import Segment
from voice_omni.models.qwen3_omni.config import ThinkerConfig
from voice_omni.models.qwen3_omni.placeholders import Film, Medium, Picture, Sound
from voice_omni.models.qwen3_omni.prompt import Prompt
from voice_omni.models.qwen3_omni.wire import LIVE


def segments(config: ThinkerConfig, prompt: Prompt, live: int | None = None) -> list[Segment]:
    """``live``: which of the prompt's media is streamed in; it must be written as a :class:`Sound` of one row."""
    tokens = np.array(prompt.tokens)
    parts: list[Segment] = []
    done = taken = 0
    for number, medium in enumerate(prompt.media):
        count = _rows(config, medium)
        start, stop = int(prompt.at[taken]), int(prompt.at[taken + count - 1]) + 1
        taken += count
        if start > done:
            parts.append(_segment(prompt, done, start))
        if number == live:
            parts.append(_segment(prompt, start, stop, LIVE))
        else:
            inside = tokens[start:stop]
            heard = np.flatnonzero(inside == config.audio_token_id)
            seen = np.flatnonzero((inside == config.image_token_id) | (inside == config.video_token_id))
            part = _segment(prompt, start, stop, number)
            parts.append(
                Segment(
                    tokens=part.tokens,
                    positions=part.positions,
                    medium=number,
                    heard=heard if len(heard) else None,
                    seen=seen if len(seen) else None,
                )
            )
        done = stop
    if done < len(prompt.tokens):
        parts.append(_segment(prompt, done, len(prompt.tokens)))
    return parts if live is None else _without_live_row(parts)


def _segment(prompt: Prompt, start: int, stop: int, medium: int | None = None) -> Segment:
    return Segment(tokens=prompt.tokens[start:stop], positions=prompt.positions[:, start:stop], medium=medium)


def _without_live_row(parts: Sequence[Segment]) -> list[Segment]:
    """What follows the live sound moved to where it would stand if that had no row."""
    live = next(number for number, part in enumerate(parts) if part.medium == LIVE)
    moved = [
        Segment(tokens=part.tokens, positions=part.positions - 1, medium=part.medium, heard=part.heard, seen=part.seen)
        for part in parts[live + 1 :]
    ]
    return [*parts[: live + 1], *moved]


def _rows(config: ThinkerConfig, medium: Medium) -> int:
    """Placeholders of a medium."""
    merge = config.vision.spatial_merge_size
    match medium:
        case Sound(rows):
            return rows
        case Picture(grid):
            return grid.rows(merge)
        case Film(grid, _, sound_rows):
            return grid.rows(merge) + (sound_rows or 0)
