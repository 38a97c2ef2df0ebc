"""The seam between OmniScheduler and whatever runs an autoregressive backbone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FinishReason = Literal["stop", "length", "removed"]

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn. ``temperature`` 0 is greedy. ``seed`` makes a row reproducible.

    In this order: ``repetition_penalty`` on the tokens that the row has generated, ``suppress`` (tokens that are never
    drawn), ``temperature``, ``top_k`` (0: all), ``top_p``.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    suppress: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive positions of a prompt: ``tokens`` [n], ids of which some only hold a place.

    ``rows``: float32 ``[m, width]``, what the backbone reads instead of the embeddings of the positions ``at``
    (``[m]``, ascending, counted from the piece's start; None: of all). ``deepstack``: float32 ``[layers, m, width]``,
    what is added at the same positions behind each of the first layers (https://arxiv.org/abs/2406.04334).
    ``positions``: float32 ``[3, n]``, the rotary positions (time, height, width); None: counted on from the piece
    before.
    """

    tokens: Sequence[int]
    rows: Rows | None = None
    at: NDArray[np.int64] | None = None
    deepstack: Rows | None = None
    positions: Rows | None = None

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """More input of a row that is running.

    ``pieces`` continue its prompt, ``closed`` ends it: now the first token is sampled. ``kept``: first, all of the
    prompt behind so many positions is taken back, the border between two pieces that were fed; what was computed of it
    is not reported any more. ``conditions``: float32 ``[n, width]``, added one by one to the inputs of the row's decode
    steps; ``ended``: no more of these will come.
    """

    pieces: Sequence[Piece] = ()
    closed: bool = False
    kept: int | None = None
    conditions: Rows | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence to continue. ``row_id`` is the request's id; ``prompt`` holds token ids.

    ``prefix_len`` marks how much of the prompt is likely to come again (the system prompt): an engine may keep its
    KV. ``stop`` tokens end the row and are not reported.

    The rest needs a :class:`StreamedEngine`. ``open``: the prompt goes on with what is fed; each piece is prefilled at
    once, and nothing is sampled before a feed closes it. ``padding``: float32 ``[width]``; a row that has one adds a
    fed condition to the input of each decode step, waits alone while there is none, and adds the padding when the
    conditions have ended. ``session``: rows of one session are likely to begin alike; an engine may keep what a row has
    computed for the one that comes next.
    """

    row_id: str
    prompt: list[int]
    max_new_tokens: int
    stop: frozenset[int]
    sampling: Sampling = field(default_factory=Sampling)
    prefix_len: int = 0
    open: bool = False
    padding: Rows | None = field(default=None, compare=False)
    session: str | None = None


@dataclass(frozen=True, slots=True)
class RowOutput:
    """What a row gained since it was last reported; ``finish`` is set exactly once, at its end.

    ``frames``: of a model with a frame head, each ``[codebooks]``; ``tokens`` are then the first codes. The last token
    of a row that ends by its length gets no frame. ``hidden``: float32 ``[m, width]``, a layer's rows at those
    positions of the prompt that were given as rows, in order, also where they were computed for an earlier row of the
    session.
    """

    row_id: str
    tokens: list[int]
    finish: FinishReason | None = None
    error: Exception | None = None
    frames: list[list[int]] = field(default_factory=list)
    hidden: Rows | None = field(default=None, compare=False)


class Engine(Protocol):
    """Runs rows, each at its own pace. All methods are called on one thread, the scheduler's.

    A synchronous engine computes in :meth:`step` and is ``busy`` while it has a row that can run. An asynchronous one
    computes elsewhere, calls ``wake`` (from any thread) when :meth:`step` has something to collect, and is ``busy``
    only then; its :meth:`step` never blocks.
    """

    def start(self, wake: Callable[[], None]) -> None: ...

    def add(self, row: Row) -> None: ...

    def pause(self, row_id: str) -> None:
        """Keep the row from running (its listener is slow); the others go on. Tokens that were already under way
        may still be reported."""
        ...

    def resume(self, row_id: str) -> None: ...

    def remove(self, row_id: str) -> None:
        """End the row early; a later step reports it with ``finish="removed"`` once nothing runs for it."""
        ...

    @property
    def busy(self) -> bool: ...

    def step(self) -> list[RowOutput]: ...

    def stop(self) -> None:
        """End every row and free what the engine holds. Returns when nothing of it runs any more."""
        ...

    def stats(self) -> dict[str, int]:
        """Counts that must be 0 when no row is alive (``rows``, ``running``, ...)."""
        ...


@runtime_checkable
class StreamedEngine(Engine, Protocol):
    """An engine whose rows take in more while they run."""

    def feed(self, row_id: str, feed: Feed) -> None:
        """More of an open row's prompt, or conditions for its decode steps. Nothing for a row that has ended.

        Raises :class:`~voice_omni.proto.errors.OmniError` ``invalid_value`` for what the row cannot take.
        """
        ...
