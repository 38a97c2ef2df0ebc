"""What a model package implements: a batch in, outputs out.

A runner is called on its scheduler's thread only, so it needs no locks. It raises
:class:`~voice_omni.proto.errors.OmniError` (or any exception, which is reported as ``internal_error``) to fail one
request; a runner that fails a whole batch fails each request of it, and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from voice_omni.engines.interface import Feed, Row, RowOutput
from voice_omni.proto.payload import Data, StagePayload

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a stream edge, as it reached this stage from ``source`` (a stage's name or ``"client"``)."""

    source: str
    data: Data


@dataclass(frozen=True, slots=True)
class Emit:
    """One piece that this stage streams out; ``targets`` None means every stream edge of the request's route."""

    data: Data
    targets: tuple[str, ...] | None = None


@dataclass(slots=True)
class Outcome:
    """What one call did for one request.

    ``result``: the request is finished at this stage and this goes along the payload edges. ``more``: call again even
    if no new input arrives (work is split so that others get their turn). ``error``: this request alone has failed.
    ``played_s``: how many seconds of sound the emits become, where that is known; rows can be paced by it.
    """

    emits: list[Emit] = field(default_factory=list)
    result: Data | None = None
    more: bool = False
    error: Exception | None = None
    played_s: float = 0.0


@dataclass(slots=True)
class RowOutcome(Outcome):
    """What taking in streamed input did for one request; ``feed`` goes into its row."""

    feed: Feed | None = None


@dataclass(slots=True)
class Work(Generic[S]):
    """All that has arrived for one request since the last call: chunks in order, and whether the streams ended."""

    request_id: str
    state: S
    chunks: Sequence[Chunk]
    ended: bool


class BatchRunner(Protocol[S]):
    """Independent items: preprocessing, encoders, feed-forward talkers (for the ``simple`` scheduler).

    A request without stream edges into this stage comes once, with no chunks and ``ended`` true. A call with
    ``ended`` true and no ``more`` must return a ``result``.
    """

    def open(self, payload: StagePayload) -> S: ...

    def cost(self, work: Work[S]) -> float:
        """The share of the stage's ``max_cost`` that this work takes in a batch, in the runner's own unit."""
        ...

    def run(self, batch: Sequence[Work[S]]) -> Sequence[Outcome]: ...

    def close(self, state: S) -> None:
        """The request ended here in any way: finished, failed or aborted. Called exactly once per ``open``."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A runner whose batch can be abandoned while it is computed, so that an abort need not wait for its end."""

    def interrupt(self) -> None:
        """Called on another thread: make the call that is running raise soon, if it still runs.

        Only requests that were aborted are in its batch. A call that begins later must not be affected.
        """
        ...


class AutoregressiveRunner(Protocol[S]):
    """The model's side of an autoregressive stage (for the ``omni`` scheduler); the engine runs the backbone."""

    def open(self, payload: StagePayload) -> tuple[S, Row]:
        """The request's state and its row: the prompt and how to sample."""
        ...

    def advance(self, state: S, output: RowOutput) -> Outcome:
        """New tokens of the row; a finished row must give a ``result``."""
        ...

    def close(self, state: S) -> None: ...


@runtime_checkable
class StreamedRunner(AutoregressiveRunner[S], Protocol[S]):
    """An autoregressive stage with stream edges into it: a prompt that arrives in pieces, text that is to be spoken.

    Its engine must be a :class:`~voice_omni.engines.interface.StreamedEngine`.
    """

    def push(self, batch: Sequence[Work[S]]) -> Sequence[RowOutcome]:
        """Take in what has arrived since the last call: for a request once when its row enters the engine, perhaps with
        nothing, and then whenever something comes, but not while the listener is slow.

        A request comes with ``ended`` true exactly once, also one without stream edges. That call must leave the row
        with a closed prompt and ended conditions, or give a ``result``, which ends the row early. ``more`` has no
        meaning here.
        """
        ...


class VocoderRunner(Protocol[S]):
    """A streaming decoder from codec frames to samples (for the ``code2wav`` scheduler).

    However the frames are cut into calls, the samples, joined, equal those of one decode.
    """

    sample_rate: int
    frame_samples: int

    def open(self, payload: StagePayload) -> S: ...

    def push(self, state: S, chunk: Chunk) -> None:
        """Take frames in; cheap, decodes nothing."""
        ...

    def ready(self, state: S, ended: bool) -> int:
        """How many frames could be decoded now; 0 with ``ended`` true means that the stream is finished."""
        ...

    def decode(self, batch: Sequence[tuple[S, int]]) -> Sequence[Data | Exception]:
        """Decode at most so many frames of each stream (at least one); the chunks to stream out, ``AUDIO`` among
        them, or what failed."""
        ...

    def result(self, state: S) -> Data: ...

    def close(self, state: S) -> None: ...


class Submission(Protocol):
    """A batch that a vocoder has begun to decode."""

    def done(self) -> bool:
        """Whether :meth:`collect` would not wait."""
        ...

    def collect(self) -> Sequence[Data | Exception]:
        """What :meth:`VocoderRunner.decode` gives; called at most once."""
        ...


@runtime_checkable
class SubmittingVocoder(VocoderRunner[S], Protocol[S]):
    """A vocoder whose device computes by itself, so that a second batch can be begun before the first is collected."""

    def submit(self, batch: Sequence[tuple[S, int]]) -> Submission:
        """Begin :meth:`VocoderRunner.decode`: the frames are taken from their streams when this returns.

        Batches are computed in order. A stream may be closed, and another opened, while its batch is computed.
        """
        ...
