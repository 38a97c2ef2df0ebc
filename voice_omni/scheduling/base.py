"""What the three schedulers share: the request table, credits, and the isolation of failures."""

from __future__ import annotations

import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from voice_omni.model_runner.interface import Chunk, Emit, Outcome
from voice_omni.proto.errors import as_omni_error
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    FailedOut,
    Incoming,
    New,
    Outbox,
    ResultOut,
    Stop,
    StreamOut,
    Wake,
)

logger = logging.getLogger(__name__)

MOMENT_S: Final = 1e-6
"""What is due sooner is due now: a clock cannot be relied on to advance by less."""


@dataclass(slots=True)
class Slot:
    """One open request. ``unsent`` holds emits that wait for credits; while it is not empty no work is done for it,
    so that it never holds more than one call has produced."""

    request_id: str
    state: Any
    credits: int
    chunks: deque[Chunk] = field(default_factory=deque)
    ended: bool = False
    more: bool = False
    unsent: deque[Emit] = field(default_factory=deque)
    result: Data | None = None

    @property
    def blocked(self) -> bool:
        return bool(self.unsent) or self.credits <= 0


class BaseScheduler(ABC):
    """The loop: take in what has arrived, then do one batch. All state is touched by one thread only."""

    def __init__(self, outbox: Outbox, clock: Callable[[], float] = time.monotonic) -> None:
        self.inbox: queue.SimpleQueue[Incoming] = queue.SimpleQueue()
        self.outbox = outbox
        self._clock = clock
        self._slots: dict[str, Slot] = {}
        self._busy_since: float | None = None
        self._stopping = False
        self._batch_lock = threading.Lock()
        self._in_batch: frozenset[str] = frozenset()
        self._condemned: set[str] = set()

    # -- called from other threads -------------------------------------------------------------------------------

    def stop(self) -> None:
        self.inbox.put(Stop())

    def abort(self, request_id: str) -> None:
        self.inbox.put(AbortIn(request_id))
        with self._batch_lock:
            self._condemned.add(request_id)
            # Under the lock, so that it cannot hit the batch that follows.
            if self._in_batch and self._in_batch <= self._condemned:
                self._interrupt()

    def stats(self) -> dict[str, int]:
        since = self._busy_since
        return {
            "requests": len(self._slots),
            "inbox": self.inbox.qsize(),
            "busy_ms": 0 if since is None else int((self._clock() - since) * 1000),
        }

    # -- the loop ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            while not self._stopping:
                self._take_in(self._patience())
                if not self._stopping:
                    self._busy_since = self._clock()
                    self._work()
                    self._busy_since = None
        finally:
            self._busy_since = None
            for slot in list(self._slots.values()):
                self._forget(slot)

    def _take_in(self, patience: float | None) -> None:
        """Handle everything that waits; block for the first message as long as ``patience`` (None: without end)."""
        try:
            message = self.inbox.get(timeout=patience) if patience != 0 else self.inbox.get_nowait()
            while True:
                self._handle(message)
                message = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _handle(self, message: Incoming) -> None:
        match message:
            case New(payload, credits):
                self._admit(payload, credits)
            case ChunkIn(request_id, source, data):
                if slot := self._slots.get(request_id):
                    slot.chunks.append(Chunk(source, data))
                    self._touched(slot)
            case EndIn(request_id):
                if slot := self._slots.get(request_id):
                    slot.ended = True
                    self._touched(slot)
            case CreditIn(request_id, count):
                if slot := self._slots.get(request_id):
                    slot.credits += count
                    if self._send(slot):
                        self._touched(slot)
            case AbortIn(request_id):
                with self._batch_lock:
                    self._condemned.discard(request_id)
                if slot := self._slots.get(request_id):
                    self._abort(slot)
            case Wake():
                pass
            case Stop():
                self._stopping = True

    def _admit(self, payload: StagePayload, credits: int) -> None:
        try:
            state = self._open(payload)
        except Exception as error:  # noqa: BLE001 - one request's failure ends here, whatever it is
            self.outbox.put(FailedOut(payload.request_id, as_omni_error(error)))
            return
        slot = Slot(payload.request_id, state, credits)
        self._slots[payload.request_id] = slot
        self._admitted(slot)

    # -- what a subclass decides ---------------------------------------------------------------------------------

    @abstractmethod
    def _open(self, payload: StagePayload) -> Any:
        """The model's state for a new request."""

    @abstractmethod
    def _close(self, state: Any) -> None: ...

    def _admitted(self, slot: Slot) -> None:
        """The slot is new in the table."""
        self._touched(slot)

    @abstractmethod
    def _touched(self, slot: Slot) -> None:
        """Something has changed for this slot: input, end or credits."""

    @abstractmethod
    def _patience(self) -> float | None:
        """Seconds to wait for the inbox before :meth:`_work` has something to do; None: until a message comes."""

    @abstractmethod
    def _work(self) -> None:
        """Do one batch, if there is one."""

    def _abort(self, slot: Slot) -> None:
        self._forget(slot)
        self.outbox.put(AbortedOut(slot.request_id))

    def _interrupt(self) -> None:  # noqa: B027 - most schedulers have nothing to interrupt
        """Called on another thread: give up the batch that is being computed, if the runner can."""

    # -- helpers -------------------------------------------------------------------------------------------------

    @contextmanager
    def _computing(self, request_ids: Iterable[str]) -> Iterator[None]:
        """Around the runner's call for these requests: until it ends an abort of all of them may interrupt it."""
        with self._batch_lock:
            self._in_batch = frozenset(request_ids)
        try:
            yield
        finally:
            with self._batch_lock:
                self._in_batch = frozenset()

    def _consumed(self, slot: Slot, chunks: Sequence[Chunk]) -> None:
        """Return the credits of chunks that have been worked on, one message per source."""
        counts: dict[str, int] = {}
        for chunk in chunks:
            counts[chunk.source] = counts.get(chunk.source, 0) + 1
        for source, count in counts.items():
            self.outbox.put(ConsumedOut(slot.request_id, source, count))

    def _apply(self, slot: Slot, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._fail(slot, outcome.error)
            return
        slot.unsent.extend(outcome.emits)
        slot.result = outcome.result
        slot.more = outcome.more
        if self._send(slot):
            self._touched(slot)

    def _send(self, slot: Slot) -> bool:
        """Send what credits allow, then the result. True if the slot is still open and may work again."""
        while slot.unsent and slot.credits > 0:
            emit = slot.unsent.popleft()
            slot.credits -= 1
            self.outbox.put(StreamOut(slot.request_id, emit.data, emit.targets))
        if slot.unsent:
            return False
        if slot.result is not None:
            result = slot.result
            self._forget(slot)
            self.outbox.put(ResultOut(slot.request_id, result))
            return False
        return slot.credits > 0

    def _fail(self, slot: Slot, error: Exception) -> None:
        self._forget(slot)
        self.outbox.put(FailedOut(slot.request_id, as_omni_error(error)))

    def _forget(self, slot: Slot) -> None:
        del self._slots[slot.request_id]
        slot.chunks.clear()
        slot.unsent.clear()
        try:
            self._close(slot.state)
        except Exception:
            logger.exception("closing request %s failed", slot.request_id)
