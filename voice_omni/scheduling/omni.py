"""Scheduler for autoregressive stages: drives an engine, one row for each request, each row on its own."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from voice_omni.engines.interface import Engine, Row, RowOutput, StreamedEngine
from voice_omni.model_runner.interface import AutoregressiveRunner, Outcome, RowOutcome, StreamedRunner, Work
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import StagePayload
from voice_omni.scheduling.base import MOMENT_S, BaseScheduler, Slot
from voice_omni.scheduling.interface import AbortedOut, Outbox, Wake
from voice_omni.scheduling.options import OmniOptions
from voice_omni.scheduling.playback import Playback


class _Place(Enum):
    """``PAUSED``: its listener is slow; ``AHEAD``: far enough ahead of what can have been heard. Neither runs."""

    WAITING = auto()
    RUNNING = auto()
    PAUSED = auto()
    AHEAD = auto()
    FINISHED = auto()


_TAKING: Final = frozenset((_Place.RUNNING, _Place.AHEAD))
"""Where a row takes in what comes."""

STRIDE_S: Final = 0.4
"""Between the moments at which rows that are ahead may go on. All go on at once, and so far that the engine has a full
batch for a few steps and then rests, which costs it less than as many steps with a row each."""


@dataclass(slots=True)
class _RowState:
    """A request's model state, its row, where that is, and what it has given to be played. ``begun``: the runner of a
    streamed row has been asked for the first time; ``told``: it knows that the input has ended."""

    model: Any
    row: Row
    place: _Place = _Place.WAITING
    playback: Playback = field(default_factory=Playback)
    begun: bool = False
    told: bool = False


class OmniScheduler(BaseScheduler):
    """Admits rows first come first served up to ``max_rows``. A row whose listener is slow is paused; an aborted row
    is acknowledged when the engine has let go of it.

    What streams in goes through the runner into the row as soon as it is in the engine. Until then, and while the
    listener is slow, it stays uncredited, which holds back whoever sends it.

    A row that has given more than the options' ``lead_s`` seconds of sound ahead of the ear does not run until the next
    stride in which it has less; it still takes in what comes.
    """

    def __init__(
        self,
        runner: AutoregressiveRunner[Any],
        engine: Engine,
        options: OmniOptions,
        outbox: Outbox,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(outbox, clock)
        self._runner = runner
        self._engine = engine
        self._streamed = _streamed(runner, engine)
        self._max_rows = options.max_rows
        self._lead_s = math.inf if options.lead_s is None else options.lead_s
        self._waiting: deque[Slot] = deque()
        self._in_engine = 0
        self._ahead: set[str] = set()
        self._stride = 0.0
        # Rows that something has arrived for, in order. All that comes for one until then goes in together, and what
        # the engine has made is collected in between, however much text arrives.
        self._fed: dict[str, None] = {}
        # Rows that are closed here but still in the engine; True where an abort waits for its acknowledgement.
        self._leaving: dict[str, bool] = {}

    def stats(self) -> dict[str, int]:
        engine = {f"engine_{name}": count for name, count in self._engine.stats().items()}
        return {
            **super().stats(),
            **engine,
            "waiting": len(self._waiting),
            "rows": self._in_engine,
            "ahead": len(self._ahead),
            "leaving": len(self._leaving),
        }

    def start(self) -> None:
        self._engine.start(lambda: self.inbox.put(Wake()))
        try:
            super().start()
        finally:
            self._engine.stop()

    def _open(self, payload: StagePayload) -> _RowState:
        model, row = self._runner.open(payload)
        return _RowState(model, row)

    def _close(self, state: _RowState) -> None:
        self._runner.close(state.model)

    def _admitted(self, slot: Slot) -> None:
        self._waiting.append(slot)
        self._fill()

    def _touched(self, slot: Slot) -> None:
        state: _RowState = slot.state
        if state.place is _Place.PAUSED and not slot.blocked:
            state.place = _Place.RUNNING
            self._engine.resume(slot.request_id)
        self._note(slot)

    def _note(self, slot: Slot) -> None:
        """Something may have come for its row."""
        if self._streamed is not None:
            self._fed[slot.request_id] = None

    def _push(self, slots: Sequence[Slot]) -> None:
        """Give rows what has arrived for them, all with one call."""
        if self._streamed is None or not slots:
            return
        runner, engine = self._streamed
        batch = [self._arrived(slot) for slot in slots]
        try:
            done = list(zip(slots, batch, runner.push(batch), strict=True))
        except Exception as error:  # noqa: BLE001 - the failure belongs to these requests only
            done = [(slot, work, RowOutcome(error=error)) for slot, work in zip(slots, batch, strict=True)]
        for slot, work, outcome in done:
            try:
                if outcome.error is None and outcome.feed is not None:
                    engine.feed(slot.request_id, outcome.feed)
            except Exception as error:  # noqa: BLE001 - one row's failure is its own
                outcome.error = error
            self._consumed(slot, work.chunks)
            self._apply(slot, outcome)
            self._hold_back(slot)

    def _takes(self, slot: Slot) -> bool:
        """Whether something has arrived that the row can take now."""
        state: _RowState = slot.state
        if slot.blocked or slot.result is not None or state.place not in _TAKING:
            return False
        return not state.begun or bool(slot.chunks) or (slot.ended and not state.told)

    def _arrived(self, slot: Slot) -> Work[Any]:
        state: _RowState = slot.state
        chunks = list(slot.chunks)
        slot.chunks.clear()
        state.begun, state.told = True, slot.ended
        return Work(slot.request_id, state.model, chunks, slot.ended)

    def _hold_back(self, slot: Slot) -> None:
        """Pause a row that has no credits left."""
        state: _RowState = slot.state
        if state.place is _Place.RUNNING and slot.request_id in self._slots and slot.blocked:
            state.place = _Place.PAUSED
            self._engine.pause(slot.request_id)

    def _fill(self) -> None:
        while self._waiting and self._in_engine < self._max_rows:
            slot = self._waiting.popleft()
            try:
                self._engine.add(slot.state.row)
            except Exception as error:  # noqa: BLE001 - a row that the engine refuses fails alone
                slot.state.place = _Place.FINISHED
                self._fail(slot, error)
                continue
            slot.state.place = _Place.RUNNING
            self._in_engine += 1
            self._note(slot)

    def _patience(self) -> float | None:
        if self._engine.busy or self._fed:
            return 0
        return max(0.0, self._stride - self._clock()) if self._ahead else None

    def _work(self) -> None:
        if self._ahead and self._stride - self._clock() <= MOMENT_S:
            self._go_on()
        if self._engine.busy:
            for output in self._engine.step():
                self._collect(output)
        fed, self._fed = self._fed, {}
        slots = (self._slots.get(request_id) for request_id in fed)
        self._push([slot for slot in slots if slot is not None and self._takes(slot)])

    def _collect(self, output: RowOutput) -> None:
        if output.finish is not None or output.error is not None:
            self._in_engine -= 1
        if output.row_id in self._leaving:
            if (output.finish is not None or output.error is not None) and self._leaving.pop(output.row_id):
                self.outbox.put(AbortedOut(output.row_id))
        else:
            self._advance(self._slots[output.row_id], output)
        self._fill()

    def _advance(self, slot: Slot, output: RowOutput) -> None:
        state: _RowState = slot.state
        if output.finish is not None or output.error is not None:
            state.place = _Place.FINISHED
            self._ahead.discard(output.row_id)
        if slot.result is not None:
            return  # the runner ended the request early; its result still waits for credits
        if output.error is not None:
            self._fail(slot, output.error)
            return
        try:
            outcome = self._runner.advance(state.model, output)
        except Exception as error:  # noqa: BLE001 - one row's failure is its own
            outcome = Outcome(error=error)
        if outcome.error is None and output.finish is not None and outcome.result is None:
            outcome.error = RuntimeError("the runner returned no result for a finished row")
        if outcome.played_s:
            state.playback.send(outcome.played_s, self._clock())
        self._apply(slot, outcome)
        self._hold_back(slot)
        self._pace(slot)

    def _pace(self, slot: Slot) -> None:
        """Stop a row that is far enough ahead."""
        state: _RowState = slot.state
        now = self._clock()
        if state.place is not _Place.RUNNING or slot.request_id not in self._slots:
            return
        if state.playback.lead(now) >= self._lead_s:
            if not self._ahead:
                self._stride = _next_stride(now)
            self._ahead.add(slot.request_id)
            state.place = _Place.AHEAD
            self._engine.pause(slot.request_id)

    def _go_on(self) -> None:
        """Let all rows run that are not ahead any more."""
        now = self._clock()
        for request_id in list(self._ahead):
            slot = self._slots[request_id]
            state: _RowState = slot.state
            if state.playback.lead(now) >= self._lead_s:
                continue
            self._ahead.discard(request_id)
            state.place = _Place.PAUSED if slot.blocked else _Place.RUNNING
            if state.place is _Place.RUNNING:
                self._engine.resume(request_id)
        self._stride = _next_stride(now)

    def _abort(self, slot: Slot) -> None:
        self._forget(slot)
        if slot.request_id in self._leaving:
            self._leaving[slot.request_id] = True
        else:
            self.outbox.put(AbortedOut(slot.request_id))

    def _forget(self, slot: Slot) -> None:
        self._ahead.discard(slot.request_id)
        if slot.state.place is _Place.WAITING:
            self._waiting.remove(slot)
        elif slot.state.place is not _Place.FINISHED:
            self._leaving[slot.request_id] = False
            self._engine.remove(slot.request_id)
        super()._forget(slot)


def _next_stride(now: float) -> float:
    return (math.floor((now + MOMENT_S) / STRIDE_S) + 1) * STRIDE_S


def _streamed(runner: AutoregressiveRunner[Any], engine: Engine) -> tuple[StreamedRunner[Any], StreamedEngine] | None:
    """Both sides of a stage that takes streams in. Raises :class:`OmniError` ``invalid_pipeline`` if only the runner
    can."""
    if not isinstance(runner, StreamedRunner):
        return None
    if not isinstance(engine, StreamedEngine):
        raise OmniError("invalid_pipeline", f"{type(engine).__name__} takes no streamed input, which the runner needs")
    return runner, engine
