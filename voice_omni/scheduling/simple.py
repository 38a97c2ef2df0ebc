"""Scheduler for independent items: preprocessing, encoders, feed-forward talkers."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from voice_omni.model_runner.interface import BatchRunner, Interruptible, Work
from voice_omni.proto.payload import StagePayload
from voice_omni.scheduling.base import BaseScheduler, Slot
from voice_omni.scheduling.interface import Outbox
from voice_omni.scheduling.options import SimpleOptions


class SimpleScheduler(BaseScheduler):
    """Batches by cost, first come first served; a request that asks for ``more`` queues again behind the others.

    A batch closes when it is full, or when its oldest member has waited ``max_wait_ms``.
    """

    def __init__(
        self,
        runner: BatchRunner[Any],
        options: SimpleOptions,
        outbox: Outbox,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(outbox, clock)
        self._runner = runner
        self._options = options
        self._ready: OrderedDict[str, float] = OrderedDict()

    def stats(self) -> dict[str, int]:
        return {**super().stats(), "ready": len(self._ready)}

    def _open(self, payload: StagePayload) -> Any:
        return self._runner.open(payload)

    def _close(self, state: Any) -> None:
        self._runner.close(state)

    def _interrupt(self) -> None:
        if isinstance(self._runner, Interruptible):
            self._runner.interrupt()

    def _forget(self, slot: Slot) -> None:
        self._ready.pop(slot.request_id, None)
        super()._forget(slot)

    def _touched(self, slot: Slot) -> None:
        has_work = slot.chunks or slot.ended or slot.more
        if has_work and not slot.blocked and slot.result is None:
            self._ready.setdefault(slot.request_id, self._clock())

    def _patience(self) -> float | None:
        if not self._ready:
            return None
        if len(self._ready) >= self._options.max_batch:
            return 0
        oldest = next(iter(self._ready.values()))
        return max(0.0, oldest + self._options.max_wait_ms / 1000 - self._clock())

    def _work(self) -> None:
        # A message may have come in before the wait was over: the batch is not due yet.
        if self._patience() != 0:
            return
        slots, batch = self._select()
        if not batch:
            return
        try:
            with self._computing(work.request_id for work in batch):
                outcomes = self._runner.run(batch)
            done = list(zip(slots, batch, outcomes, strict=True))
        except Exception as error:  # noqa: BLE001 - the failure belongs to these requests only
            for slot in slots:
                self._fail(slot, error)
            return
        for slot, work, outcome in done:
            self._consumed(slot, work.chunks)
            if work.ended and outcome.result is None and not outcome.more and outcome.error is None:
                outcome.error = RuntimeError("the runner returned no result for a request whose input had ended")
            self._apply(slot, outcome)

    def _select(self) -> tuple[list[Slot], list[Work[Any]]]:
        slots: list[Slot] = []
        batch: list[Work[Any]] = []
        cost = 0.0
        for request_id in list(self._ready):
            slot = self._slots[request_id]
            work = Work(request_id, slot.state, tuple(slot.chunks), slot.ended)
            try:
                cost += self._runner.cost(work)
            except Exception as error:  # noqa: BLE001 - one request's failure is its own
                self._fail(slot, error)
                continue
            if batch and cost > self._options.max_cost:
                break
            del self._ready[request_id]
            slot.chunks.clear()
            slots.append(slot)
            batch.append(work)
            if len(batch) == self._options.max_batch:
                break
        return slots, batch
