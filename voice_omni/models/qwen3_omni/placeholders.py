"""Sounds, pictures and films in a prompt: how many placeholders each takes, and where the rotary positions put them.

Positions have three axes: time, height and width. Text and sound move along all three at once, one for each token. A
picture stands still in time and spreads over height and width. A film moves in time with the clock: a second takes as
many positions as it has audio rows, so that a film and its own sound, whose rows are interleaved by time, agree.
What follows a medium begins behind the largest position at its end (https://arxiv.org/abs/2509.17765, section 2.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voice_omni.models.qwen3_omni.config import ThinkerConfig
from voice_omni.models.qwen3_omni.patches import Grid
from voice_omni.proto.errors import OmniError

Positions = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sound:
    """``rows``: of the audio tower."""

    rows: int


@dataclass(frozen=True, slots=True)
class Picture:
    grid: Grid


@dataclass(frozen=True, slots=True)
class Film:
    """``grid_seconds``: how long each grid lasts. ``sound_rows``: of its own sound; None for a silent film."""

    grid: Grid
    grid_seconds: float
    sound_rows: int | None = None


Medium = Sound | Picture | Film


class Placeholders:
    """The placeholder tokens of one checkpoint."""

    def __init__(self, config: ThinkerConfig) -> None:
        self._config = config
        self._merge = config.vision.spatial_merge_size
        self._single = frozenset((config.audio_token_id, config.image_token_id, config.video_token_id))

    def at(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """Where the placeholders stand, ascending."""
        return np.flatnonzero(np.isin(tokens, list(self._single)))

    def expand(self, tokens: Sequence[int], media: Sequence[Medium]) -> list[int]:
        """The prompt with each medium's single placeholder replaced by as many as it has rows.

        Raises :class:`OmniError` ``internal_error`` if there are not as many of one as of the other.
        """
        found = sum(token in self._single for token in tokens)
        if found != len(media):
            raise OmniError("internal_error", f"the template has {found} placeholders for {len(media)} media")
        left = iter(media)
        expanded: list[int] = []
        for token in tokens:
            expanded += self.tokens(next(left)) if token in self._single else [token]
        return expanded

    def tokens(self, medium: Medium) -> list[int]:
        """The placeholders of one medium; those of a film with sound stand between the marks of a sound."""
        config = self._config
        match medium:
            case Sound(rows):
                return [config.audio_token_id] * rows
            case Picture(grid):
                return [config.image_token_id] * grid.rows(self._merge)
            case Film(grid, _, None):
                return [config.video_token_id] * grid.rows(self._merge)
            case Film():
                pads = np.where(self.seen(medium), config.video_token_id, config.audio_token_id)
                return [config.audio_start_token_id, *pads.tolist(), config.audio_end_token_id]

    def positions(self, tokens: Sequence[int], media: Sequence[Medium]) -> Positions:
        """float32 ``[3, n]`` of an expanded prompt; ``media`` in their order.

        The first generated token's position is one more than the largest of all.
        """
        parts: list[Positions] = []
        left = iter(media)
        following, index = 0.0, 0
        while index < len(tokens):
            if tokens[index] in self._single:
                part, last = self._medium(next(left))
            else:
                end = next((at for at in range(index, len(tokens)) if tokens[at] in self._single), len(tokens))
                part, last = _line(end - index), end - index - 1.0
            parts.append(part + np.float32(following))
            following += last + 1
            index += part.shape[1]
        return np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), np.float32)

    def _medium(self, medium: Medium) -> tuple[Positions, float]:
        """A medium's positions counted from 0, and the largest at its end."""
        match medium:
            case Sound(rows):
                return _line(rows), rows - 1.0
            case Picture(grid):
                spread = self._spread(grid, 0.0)
                return spread, float(spread.max())
            case Film(grid, grid_seconds, None):
                spread = self._spread(grid, grid_seconds)
                return spread, float(spread.max())
            case Film(grid, grid_seconds, sound_rows):
                seen = self.seen(medium)
                mixed = np.zeros((3, len(seen)), np.float32)
                mixed[:, seen] = self._spread(grid, grid_seconds)
                mixed[:, ~seen] = _line(sound_rows or 0)
                # Only what is left of the longer one counts, even where the other has been further.
                return mixed, float(mixed[:, _last_run(seen) :].max())

    def _spread(self, grid: Grid, grid_seconds: float) -> Positions:
        """float32 ``[3, rows]``: time, height and width of each row of a picture or film."""
        height, width = grid.height // self._merge, grid.width // self._merge
        times = np.arange(grid.time, dtype=np.float32) * np.float32(grid_seconds) * self._config.position_id_per_seconds
        axes = np.broadcast_arrays(
            times[:, None, None], np.arange(height)[None, :, None], np.arange(width)[None, None, :]
        )
        return np.stack([axis.reshape(-1) for axis in axes]).astype(np.float32)

    def seen(self, film: Film) -> NDArray[np.bool_]:
        """For each row of a film and its sound in their order, whether it is one of the film's: grids come first."""
        times = self._spread(film.grid, film.grid_seconds)[0]
        heard = np.arange(film.sound_rows or 0, dtype=np.float32)
        kinds = np.concatenate((np.ones(len(times), bool), np.zeros(len(heard), bool)))
        return kinds[np.argsort(np.concatenate((times, heard)), kind="stable")]


def _line(count: int) -> Positions:
    """Positions that move along all axes at once."""
    return np.broadcast_to(np.arange(count, dtype=np.float32), (3, count))


def _last_run(kinds: NDArray[np.bool_]) -> int:
    """Where the last stretch of rows of one kind begins."""
    changes = np.flatnonzero(kinds[1:] != kinds[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0
