"""The seam between a stage and its scheduler: messages into an inbox, messages out of an outbox."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Protocol

from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload


@dataclass(frozen=True, slots=True)
class New:
    """A request whose payloads are complete. ``credits``: how many emits may be on their way at once."""

    payload: StagePayload
    credits: int


@dataclass(frozen=True, slots=True)
class ChunkIn:
    request_id: str
    source: str
    data: Data


@dataclass(frozen=True, slots=True)
class EndIn:
    """Every stream edge into this stage is complete. Comes once for each request, also for one without any."""

    request_id: str


@dataclass(frozen=True, slots=True)
class CreditIn:
    """``count`` more emits have been consumed by all who read them."""

    request_id: str
    count: int


@dataclass(frozen=True, slots=True)
class AbortIn:
    request_id: str


@dataclass(frozen=True, slots=True)
class Wake:
    """The engine has something to collect."""


@dataclass(frozen=True, slots=True)
class Stop:
    pass


Incoming = New | ChunkIn | EndIn | CreditIn | AbortIn | Wake | Stop


@dataclass(frozen=True, slots=True)
class StreamOut:
    """One emit; ``targets`` None means every stream edge of the request's route."""

    request_id: str
    data: Data
    targets: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ResultOut:
    """The request is finished and forgotten here."""

    request_id: str
    data: Data


@dataclass(frozen=True, slots=True)
class ConsumedOut:
    request_id: str
    source: str
    count: int


@dataclass(frozen=True, slots=True)
class FailedOut:
    """The request has failed and is forgotten here."""

    request_id: str
    error: OmniError


@dataclass(frozen=True, slots=True)
class AbortedOut:
    """The request was aborted; nothing of it runs or is held any more."""

    request_id: str


Outgoing = StreamOut | ResultOut | ConsumedOut | FailedOut | AbortedOut


class Outbox(Protocol):
    def put(self, message: Outgoing) -> None:
        """Callable from any thread; never blocks. Bounded by the credits of the requests that are open."""
        ...


class Scheduler(Protocol):
    """Runs on a thread of its own. Whoever feeds ``inbox`` bounds it, by admission and by stream credits."""

    inbox: queue.SimpleQueue[Incoming]
    outbox: Outbox

    def start(self) -> None:
        """Serve until :meth:`stop`; blocks the calling thread."""
        ...

    def stop(self) -> None:
        """Callable from any thread. Everything still open is closed without further messages."""
        ...

    def abort(self, request_id: str) -> None:
        """Callable from any thread; answered by :class:`AbortedOut` if the request is open here, in order with what
        was put into the inbox before."""
        ...

    def stats(self) -> dict[str, int]:
        """Counts that are all 0 when nothing is held, and ``busy_ms``: how long the current batch has run."""
        ...
