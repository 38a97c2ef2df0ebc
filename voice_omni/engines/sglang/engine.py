"""Rows on SGLang: its batching, radix cache and kernels, in this process.

Asynchronous: SGLang's scheduler computes on a thread of its own, and this engine turns rows into requests to it and
its replies into what rows gained.

**Prefixes.** KV is kept by content for as long as the pool has place, so ``Row.prefix_len`` says nothing new here.
A row with a ``session`` shares KV with rows of that session alone; the others share it with each other.

**Hidden rows.** Where the options name a layer and the model keeps its rows, they are reported once the prefill of what
was fed is through, with their positions' KV from the cache or not.

**Sampling.** ``Sampling.seed`` counts where the options say ``seeded``. The repetition penalty is SGLang's, which looks
at generated tokens. It spares the last one, which SGLang does not know yet when it launches the next step, unless the
options' ``server_args`` say ``disable_overlap_schedule``. When the KV pool runs out and SGLang takes a row back to
compute it again later, it forgets for that row what came before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from voice_omni.engines.interface import Feed, Row, RowOutput
from voice_omni.engines.sglang.arguments import server_args
from voice_omni.engines.sglang.hidden import HiddenRows
from voice_omni.engines.sglang.options import SglangOptions
from voice_omni.engines.sglang.outputs import replies
from voice_omni.engines.sglang.requests import request
from voice_omni.engines.sglang.rows import Reply, Rows
from voice_omni.engines.sglang.thread import SchedulerThread


class SglangEngine:
    """An asynchronous :class:`~voice_omni.engines.interface.StreamedEngine`: token ids for every model, embedding rows
    and rotary positions for those of :mod:`.models`, conditions and frames for those of them that have a frame head.

    Loads the model when it is made, and raises what SGLang raised if that fails. ``observe`` sees each reply, on the
    scheduler's thread: how much of a prompt came from the cache, among others.

    When SGLang's scheduler dies, :meth:`step` raises ``RuntimeError`` from its exception: the KV pool and what ran on
    the device are lost, so the stage has to start again.

    ``limits``: what rows of the model may hold; ``max_rows``: how many of them run at a time.
    """

    def __init__(self, options: SglangOptions, observe: Callable[[Reply], None] | None = None) -> None:
        self._observe = observe
        self._wake: Callable[[], None] | None = None
        self._replies: deque[Reply] = deque()
        self._death: BaseException | None = None
        self._thread = SchedulerThread(server_args(options), self._deliver, self._died)
        self.limits = self._thread.limits
        self.max_rows = options.max_rows
        self._rows = Rows(
            lambda asked: self._thread.put(request(asked)),
            self.limits,
            self._thread.embed,
            options.prefill_patience_ms / 1000,
        )

    @property
    def kv_tokens(self) -> int:
        """Positions in the KV pool."""
        return self._thread.kv_tokens

    @property
    def longest_prompt(self) -> int:
        """Positions that the model's context and the pool have place for."""
        return self._thread.longest_prompt

    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def add(self, row: Row) -> None:
        self._rows.add(row)

    def feed(self, row_id: str, feed: Feed) -> None:
        self._rows.feed(row_id, feed)

    def pause(self, row_id: str) -> None:
        self._rows.pause(row_id)

    def resume(self, row_id: str) -> None:
        self._rows.resume(row_id)

    def remove(self, row_id: str) -> None:
        self._rows.remove(row_id)

    @property
    def busy(self) -> bool:
        return bool(self._replies) or self._rows.news or self._death is not None

    def step(self) -> list[RowOutput]:
        while self._replies:
            self._rows.receive(self._replies.popleft())
        if self._death is not None:
            raise RuntimeError("SGLang's scheduler died") from self._death
        return self._rows.take()

    def stop(self) -> None:
        self._thread.stop()
        self._rows.clear()
        self._replies.clear()

    def stats(self) -> dict[str, int]:
        return self._rows.stats()

    # On SGLang's thread

    def _deliver(self, output: Any) -> None:
        for reply in replies(output):
            if self._observe is not None:
                self._observe(reply)
            self._replies.append(reply)
        if not isinstance(output, HiddenRows):
            # What the batch says of the same requests follows, and is to be collected with their rows.
            self._notify()

    def _died(self, error: BaseException) -> None:
        self._death = error
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake()
