"""A row whose decode steps take in more than their last token, as SGLang's scheduler sees it. No I/O, no SGLang."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from voice_omni.engines.interface import Rows, Sampling

FED: Final = "fed_row"
"""Under which a request's ``custom_params`` hold its :class:`FedRow`."""


@dataclass(slots=True, eq=False)
class FedRow:
    """What a model with a frame head computes one request with, beside its prompt.

    ``first`` ``[width]``: what the first decode step reads, the last row of the prompt or of what was ``said`` before.
    ``pending``: conditions that are not on the device yet, ``written``: how many are. ``held``: the row must not run.
    ``steps``: decode steps that have been launched, those of earlier requests of the row included.

    Step 0 takes no condition, step n the one of number n - 1, or the padding when they have ended. Once it has been
    sent, the object belongs to the scheduler's thread.
    """

    sampling: Sampling
    padding: Rows
    first: Rows
    said: tuple[int, ...] = ()
    pending: deque[Rows] = field(default_factory=deque)
    written: int = 0
    ended: bool = False
    held: bool = False
    steps: int = 0

    @property
    def known(self) -> int:
        """The number of conditions that have come."""
        return self.written + sum(map(len, self.pending))

    @property
    def ready(self) -> bool:
        """Whether the next decode step can be launched."""
        return not self.held and (self.ended or self.steps <= self.known)

    def put(self, conditions: Rows) -> None:
        if len(conditions):
            self.pending.append(conditions)

    def take(self, room: int) -> Rows:
        """Up to so many of the pending conditions, which are written now: float32 ``[n, width]``."""
        taken: list[Rows] = []
        while self.pending and room:
            head = self.pending.popleft()
            if len(head) > room:
                self.pending.appendleft(head[room:])
                head = head[:room]
            taken.append(head)
            room -= len(head)
        rows = np.concatenate(taken)
        self.written += len(rows)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """News of a row that has been sent; None: as it was. ``conditions`` ``[n, width]`` follow those before."""

    row: FedRow
    conditions: Rows | None = None
    ended: bool = False
    held: bool | None = None

    def apply(self) -> None:
        """On the scheduler's thread."""
        if self.conditions is not None:
            self.row.put(self.conditions)
        self.row.ended = self.row.ended or self.ended
        if self.held is not None:
            self.row.held = self.held
