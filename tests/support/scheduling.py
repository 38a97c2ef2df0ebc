"""A scheduler on its own thread in simulated time: it runs only while the test lets it, so every test is exact."""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from tests.support.patience import PATIENCE_S
from voice_omni.proto.payload import OmniRequest, StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    FailedOut,
    Incoming,
    New,
    Outgoing,
    ResultOut,
    Scheduler,
    StreamOut,
)

M = TypeVar("M")


class Clock:
    """Seconds that pass when someone says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SimulatedInbox:
    """The scheduler's inbox. Waiting on it takes no time but the clock's; it hands the turn to the test when there is
    nothing to do before the moment up to which the test lets it run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._messages: deque[Incoming] = deque()
        self._turn = threading.Condition()
        self._running = False
        self._until = 0.0
        self._error: BaseException | None = None

    # -- the scheduler's side --------------------------------------------------------------------------------------

    def put(self, message: Incoming) -> None:
        self._messages.append(message)

    def qsize(self) -> int:
        return len(self._messages)

    def get_nowait(self) -> Incoming:
        if not self._messages:
            raise queue.Empty
        return self._messages.popleft()

    def get(self, timeout: float | None = None) -> Incoming:
        wake_at = math.inf if timeout is None else self._clock.now + timeout
        with self._turn:
            while True:
                self._turn.wait_for(lambda: self._running)
                if self._messages:
                    return self._messages.popleft()
                if wake_at <= self._until:
                    self._clock.now = max(self._clock.now, wake_at)
                    raise queue.Empty
                self._hand_over()

    def ended(self, error: BaseException | None) -> None:
        with self._turn:
            self._error = error
            self._hand_over()

    def _hand_over(self) -> None:
        self._running = False
        self._turn.notify_all()

    # -- the test's side -------------------------------------------------------------------------------------------

    def let_run(self, until: float) -> None:
        """Returns when the scheduler has nothing to do before ``until``."""
        with self._turn:
            self._until = until
            self._running = True
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: not self._running, PATIENCE_S), "the scheduler does not come to rest"
        if self._error is not None:
            raise self._error


class Collected:
    def __init__(self) -> None:
        self.messages: list[Outgoing] = []

    def put(self, message: Outgoing) -> None:
        self.messages.append(message)


class Simulation:
    """``build`` makes the scheduler for an outbox and a clock. Use it as a context: leaving it stops the scheduler."""

    def __init__(self, build: Callable[[Collected, Clock], Scheduler], clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self._outbox = Collected()
        self.scheduler = build(self._outbox, self.clock)
        self._inbox = SimulatedInbox(self.clock)
        self.scheduler.inbox = self._inbox  # type: ignore[assignment]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Simulation:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self.stop()

    def _serve(self) -> None:
        try:
            self.scheduler.start()
        except BaseException as error:  # noqa: BLE001 - raised again in the test
            self._inbox.ended(error)
        else:
            self._inbox.ended(None)

    def feed(self, *messages: Incoming) -> None:
        """What has arrived when the scheduler runs next."""
        for message in messages:
            self._inbox.put(message)

    def run(self, seconds: float = 0.0) -> list[Outgoing]:
        """Let the scheduler do what it can in so much time; what it has put out."""
        until = self.clock.now + seconds
        self._inbox.let_run(until)
        self.clock.now = max(self.clock.now, until)
        return self.take()

    def give(self, *messages: Incoming) -> list[Outgoing]:
        self.feed(*messages)
        return self.run()

    def take(self) -> list[Outgoing]:
        taken, self._outbox.messages = self._outbox.messages, []
        return taken

    def stop(self) -> list[Outgoing]:
        self.scheduler.stop()
        self._inbox.let_run(self.clock.now)
        self._thread.join(PATIENCE_S)
        return self.take()


def new(request_id: str, credits: int = 100, results: dict[str, Any] | None = None, **params: Any) -> New:
    request = OmniRequest(request_id=request_id, route="test", params=params)
    return New(StagePayload(request, results or {}), credits)


def of_type(kind: type[M], messages: list[Outgoing], request_id: str | None = None) -> list[M]:
    return [message for message in messages if isinstance(message, kind) and request_id in (None, message.request_id)]


def streamed(messages: list[Outgoing], request_id: str) -> list[Any]:
    return [message.data for message in of_type(StreamOut, messages, request_id)]


def ends(messages: list[Outgoing], request_id: str) -> list[Outgoing]:
    """What ended the request: exactly one message for a request that was open."""
    return [
        message
        for message in messages
        if message.request_id == request_id and isinstance(message, ResultOut | FailedOut | AbortedOut)
    ]


def nothing_held(stats: dict[str, int]) -> bool:
    return not any(stats.values())
