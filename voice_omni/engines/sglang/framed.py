"""A row of a model with a frame head: what it has read and written, and what a request goes on with. No I/O."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from voice_omni.engines.interface import Row, Rows
from voice_omni.engines.sglang.fed_row import FedRow
from voice_omni.engines.sglang.prompt import Given, Limits, Prompt
from voice_omni.proto.errors import OmniError

Embed = Callable[[list[list[int]], Rows], Rows]
"""Frames and a condition ``[n, width]`` for each -> what is read of them, ``[n, width]``."""

PROMPTS_END = 0
"""The token that SGLang is given for the end of a prompt. The model has not drawn it, and it is not reported."""


class FramedRow:
    """Raises :class:`OmniError` ``invalid_value`` for what the model cannot compute."""

    def __init__(self, row: Row, limits: Limits, embed: Embed) -> None:
        assert limits.width is not None
        self._width = limits.width
        self._embed = embed
        self._row = row
        self._padding = np.zeros(limits.width, np.float32) if row.padding is None else row.padding
        self._conditions: list[Rows] = []
        self._known = 0
        self._ended = row.padding is None
        self.frames: list[list[int]] = []
        if self._padding.shape != (limits.width,):
            raise _invalid(f"padding is [{limits.width}] here, not {list(self._padding.shape)}")
        if PROMPTS_END in row.stop:
            raise _invalid(f"this model cannot stop at the token {PROMPTS_END}")
        if never := row.sampling.suppress - limits.suppressed:
            raise _invalid(f"this model cannot be kept from drawing {len(never)} codes, {min(never)} among them")

    def check(self, prompt: Prompt, *, open_still: bool) -> None:
        if not open_still and not (prompt.ends_with_row and len(prompt) > 1):
            raise _invalid("this model's prompts have two positions at least and end with an embedding row")

    def take(self, conditions: Rows | None, *, ended: bool) -> None:
        if self._row.padding is None or self._ended:
            raise _invalid("this row takes no conditions")
        if conditions is not None:
            if conditions.ndim != 2 or conditions.shape[1] != self._width:
                raise _invalid(f"conditions are [n, {self._width}] here, not {list(conditions.shape)}")
            self._conditions.append(conditions)
            self._known += len(conditions)
        self._ended = ended

    @property
    def waits(self) -> bool:
        """Whether the row cannot write its next frame before another condition has come."""
        return not self._ended and len(self.frames) > self._known

    def request(self, prompt: Prompt) -> tuple[tuple[int, ...], tuple[Given, ...], FedRow]:
        """Token ids and rows that are prefilled, and what the decode steps take in.

        The last position is left to the first decode step. What has been written before is read again as rows.
        """
        conditions = np.concatenate([np.empty((0, self._width), np.float32), *self._conditions])
        written = len(self.frames)
        if not written:
            *whole, last = prompt.given
            shorter = last.without_last()
            given = (*whole, shorter) if shorter is not None else tuple(whole)
            fed = FedRow(self._row.sampling, self._padding, last.rows[-1], ended=self._ended)
            fed.put(conditions)
            return tuple(prompt.tokens[:-1]), given, fed
        read = np.broadcast_to(self._padding, (written, self._width)).copy()
        known = conditions[: written - 1]
        read[: len(known)] = known
        # The next step adds the last frame's condition itself.
        read[-1] = 0
        rows = self._embed(self.frames, read)
        again = [Given.following(len(prompt), rows[:-1])] if written > 1 else []
        fed = FedRow(
            self._row.sampling,
            self._padding,
            rows[-1],
            said=tuple(frame[0] for frame in self.frames),
            written=len(known),
            ended=self._ended,
            steps=written,
        )
        fed.put(conditions[len(known) :])
        return (*prompt.tokens, *[PROMPTS_END] * (written - 1)), (*prompt.given, *again), fed


def _invalid(message: str) -> OmniError:
    return OmniError("invalid_value", message)
