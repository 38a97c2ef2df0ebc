"""The seam between OmniScheduler and whatever runs an autoregressive backbone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

FinishReason = Literal["stop", "length", "removed"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn. ``temperature`` 0 is greedy. ``seed`` makes a row reproducible."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence to continue. ``row_id`` is the request's id; ``prompt`` holds token ids.

    ``prefix_len`` marks how much of the prompt is likely to come again (the system prompt): an engine may keep its
    KV. ``stop`` tokens end the row and are not reported.
    """

    row_id: str
    prompt: list[int]
    max_new_tokens: int
    stop: frozenset[int]
    sampling: Sampling = field(default_factory=Sampling)
    prefix_len: int = 0


@dataclass(frozen=True, slots=True)
class RowOutput:
    """Tokens that a row gained since it was last reported; ``finish`` is set exactly once, at its end."""

    row_id: str
    tokens: list[int]
    finish: FinishReason | None = None
    error: Exception | None = None


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
