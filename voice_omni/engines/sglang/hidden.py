"""A layer's rows of a prompt, from the device to whoever asked for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch

from voice_omni.engines.sglang.compat import slot

WANTED: Final = "hidden"
"""Where a request's parameters name what is wanted: first and last position of each span, ascending."""


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """``rows``: ``[m, width]`` in the model's dtype, on the CPU, of the spans that request ``rid`` wants."""

    rid: str
    rows: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Copy:
    """Of a batch: ``rows`` of the requests ``rids``, ``counts`` of each, are there when ``done`` is; at once without
    it."""

    rids: list[str]
    counts: list[int]
    rows: torch.Tensor
    done: Any | None

    def finished(self) -> list[HiddenRows]:
        if self.done is not None:
            self.done.synchronize()
        return [HiddenRows(rid, rows) for rid, rows in zip(self.rids, torch.split(self.rows, self.counts), strict=True)]


class HiddenReader:
    """Reads the pool of a model that keeps rows (:mod:`.models`). All on the scheduler's thread.

    :meth:`launched` follows each batch onto the device and asks there for the rows of the requests whose prompts it
    completes as far as they want them: behind its computation, and ahead of any other that may take their places. The
    rows of cached positions are read at the places of their KV like the others. :meth:`processed` comes when the
    scheduler looks at the batch, which under overlap is a batch later.
    """

    def __init__(self, pool: torch.Tensor, slots: torch.Tensor, stream: AbstractContextManager[Any] | None) -> None:
        """``pool``: ``[places, width]``; ``slots``: ``[requests, positions]``, where in the pool they are; ``stream``:
        that on which batches are computed, None: the current one."""
        self._pool = pool
        self._slots = slots
        self._stream = stream
        self._copies: deque[_Copy | None] = deque()

    def launched(self, batch: Any) -> None:
        self._copies.append(self._copy(batch) if batch.forward_mode.is_extend() else None)

    def processed(self) -> list[HiddenRows]:
        """Of the oldest batch that has been launched."""
        copy = self._copies.popleft()
        return [] if copy is None else copy.finished()

    def _copy(self, batch: Any) -> _Copy | None:
        rids, counts, places = [], [], []
        with self._stream or nullcontext():
            for request, spans in _wanted(batch):
                row = self._slots[slot(request)]
                rids.append(request.rid)
                counts.append(sum(last + 1 - first for first, last in spans))
                places += [row[first : last + 1] for first, last in spans]
            if not rids:
                return None
            rows = self._pool[torch.cat(places)]
            if not rows.is_cuda:
                return _Copy(rids, counts, rows, None)
            host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True).copy_(rows, non_blocking=True)
            done = torch.get_device_module(rows.device).Event()
            done.record()
            return _Copy(rids, counts, host, done)


def _wanted(batch: Any) -> Iterator[tuple[Any, Sequence[tuple[int, int]]]]:
    """The requests whose prompts this batch completes as far as they want rows of them, and the spans of those."""
    for request, length in zip(batch.reqs, batch.seq_lens_cpu.tolist(), strict=True):
        params = request.sampling_params.custom_params or {}
        spans = params.get(WANTED)
        if spans and spans[-1][1] < length:
            # A request that is taken back and computed again has been told already.
            del params[WANTED]
            yield request, spans
