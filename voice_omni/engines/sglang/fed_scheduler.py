"""SGLang's scheduler with rows whose decode steps take in more than their last token.

A row that has nothing to take in yet, or that is held, leaves the decode batch before a step is launched. Its request
keeps its KV and its slot, and comes back into the batch by itself. It is set aside here, out of SGLang's sight, so a
scheduler that has nothing else to do sleeps as if it were idle.

Methods of SGLang's that are overridden: where requests come in, where batches are chosen, launched and given back,
where a request is aborted, and what says that nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.managers.io_struct import AbortReq
from sglang.srt.managers.schedule_batch import FINISH_ABORT, NextBatchPlan, Req, ScheduleBatch
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.server_args import ServerArgs

from voice_omni.engines.sglang.compat import slot
from voice_omni.engines.sglang.fed_row import FED, FedRow, Told
from voice_omni.engines.sglang.frames.slots import CONDITIONS, Arrival, Fed, Slots
from voice_omni.engines.sglang.outputs import FRAMES, TAKEN_BACK
from voice_omni.engines.sglang.scheduler import Inbox, StageScheduler, generates


@dataclass(frozen=True, slots=True)
class _Aside:
    """``length``: positions whose KV is stored or being computed."""

    request: Req
    length: int


class FedScheduler(StageScheduler):
    """Serves models without a frame head as :class:`StageScheduler` does."""

    def __init__(self, args: ServerArgs, inbox: Inbox, deliver: Callable[[Any], None]) -> None:
        self._aside: dict[str, _Aside] = {}
        super().__init__(args, inbox, deliver)
        if self.slots is not None and self.slots.count < len(self.req_to_token_pool.req_to_token):
            raise ValueError("the model has fewer slots than SGLang has places for requests")

    @property
    def slots(self) -> Slots | None:
        """Of a model with a frame head."""
        slots: Slots | None = getattr(self.tp_worker.model_runner.model, "slots", None)
        return slots

    def process_input_requests(self, recv_reqs: list[Any]) -> None:
        requests = []
        for request in recv_reqs:
            if isinstance(request, Told):
                request.apply()
            else:
                requests.append(request)
        super().process_input_requests(requests)

    def get_next_batch_to_run(self, running_batch: ScheduleBatch, last_batch: ScheduleBatch | None) -> NextBatchPlan:
        if self._forget_finished():
            # SGLang would not look at those who wait for a place: the batch does not get smaller by this.
            running_batch.batch_is_full = False
        if (returning := self._take_returning()) is not None:
            if running_batch.is_empty():
                running_batch = returning
            else:
                running_batch.merge_batch(returning)
        return super().get_next_batch_to_run(running_batch=running_batch, last_batch=last_batch)

    def get_new_batch_prefill(self, running_batch: ScheduleBatch) -> NextBatchPlan:
        if not any(generates(request) and not _waits(request) for request in running_batch.reqs):
            # Nobody could make use of a turn.
            self._prefilled = False
        return super().get_new_batch_prefill(running_batch)

    def update_running_batch(self, batch: ScheduleBatch) -> ScheduleBatch | None:
        self._set_aside(batch)
        decoding: ScheduleBatch | None = super().update_running_batch(batch)
        for request in decoding.reqs if decoding is not None else ():
            if (fed := _fed(request)) is not None:
                fed.steps += 1
        return decoding

    def run_batch(self, batch: ScheduleBatch, pp_proxy_tensors: Any = None) -> GenerationBatchResult:
        slots = self.slots
        if slots is None:
            return super().run_batch(batch, pp_proxy_tensors)
        if batch.forward_mode.is_decode():
            with self._computing():
                self._feed(slots, batch)
            result = super().run_batch(batch, pp_proxy_tensors)
            result.logits_output.customized_info = {FRAMES: self._frames(slots, batch, result)}
            return result
        result = super().run_batch(batch, pp_proxy_tensors)
        with self._computing():
            self._begin(slots, batch)
        if result.logits_output is not None:
            result.logits_output.customized_info = {FRAMES: [None] * len(batch.reqs)}
        return result

    def abort_request(self, recv_req: AbortReq) -> None:
        super().abort_request(recv_req)
        for aside in self._aside.values():
            if recv_req.abort_all or aside.request.rid.startswith(recv_req.rid):
                # It is computed once more, with whatever stands in its slot, and ends as any running request does.
                aside.request.to_finish = FINISH_ABORT()

    def is_fully_idle(self, *which: bool, **named: bool) -> bool:
        return not self._aside and bool(super().is_fully_idle(*which, **named))

    def on_idle(self) -> None:
        # With requests set aside the pools are not empty, and there is no telling whether anything has leaked.
        if self._aside and super().is_fully_idle():
            self.maybe_sleep_on_idle()
        else:
            super().on_idle()

    def _add_request_to_queue(self, req: Req, is_retracted: bool = False) -> None:
        if is_retracted and _fed(req) is not None:
            # Its ids do not say what it has read, so SGLang could not compute its KV again.
            reply = AbortReq(rid=req.rid, finished_reason={"type": TAKEN_BACK})
            self.ipc_channels.send_to_tokenizer.send_output(reply, req)
        else:
            super()._add_request_to_queue(req, is_retracted)

    def _set_aside(self, batch: ScheduleBatch) -> None:
        waiting = [number for number, request in enumerate(batch.reqs) if _waits(request)]
        if not waiting:
            return
        for number in waiting:
            request = batch.reqs[number]
            self._aside[request.rid] = _Aside(request, int(batch.seq_lens_cpu[number]))
        batch.filter_batch(keep_indices=sorted(set(range(len(batch.reqs))).difference(waiting)))
        batch.batch_is_full = False

    def _forget_finished(self) -> bool:
        """The result of a request's last step may have come after it was set aside. Whether there was such a one."""
        finished = [rid for rid, aside in self._aside.items() if aside.request.finished()]
        for rid in finished:
            del self._aside[rid]
        return bool(finished)

    def _take_returning(self) -> ScheduleBatch | None:
        """Those of the requests that have been set aside which can go on, as a batch between two decode steps."""
        ready = [rid for rid, aside in self._aside.items() if not _waits(aside.request)]
        returning = [self._aside.pop(rid) for rid in ready]
        if not returning:
            return None
        batch = ScheduleBatch.init_new(
            [aside.request for aside in returning],
            self.req_to_token_pool,
            self.token_to_kv_pool_allocator,
            self.tree_cache,
            self.model_config,
            self.enable_overlap,
            self.spec_algorithm,
        )
        slots = [slot(aside.request) for aside in returning]
        lengths = [aside.length for aside in returning]
        batch.req_pool_indices_cpu = torch.tensor(slots, dtype=torch.int64)
        batch.seq_lens_cpu = torch.tensor(lengths, dtype=torch.int64)
        batch.req_pool_indices = self._sent(batch.req_pool_indices_cpu)
        batch.seq_lens = self._sent(batch.seq_lens_cpu)
        batch.orig_seq_lens = self._sent(batch.seq_lens_cpu.to(torch.int32))
        batch.multimodal_inputs = [aside.request.multimodal_inputs for aside in returning]
        batch.sampling_info = SamplingBatchInfo.from_schedule_batch(batch, self.model_config.vocab_size)
        return batch

    def _begin(self, slots: Slots, batch: ScheduleBatch) -> None:
        """Requests whose whole prompt is in this batch move into their slots."""
        complete = (request for request in batch.reqs if request is not batch.chunked_req)
        slots.begin(
            [
                Arrival(slot(request), fed.first, fed.padding, fed.sampling, fed.said)
                for request in complete
                if (fed := _fed(request)) is not None
            ]
        )

    def _feed(self, slots: Slots, batch: ScheduleBatch) -> None:
        """Bring conditions to the device as places become free; many at once, or before they are needed."""
        brought = []
        for request in batch.reqs:
            fed = _fed(request)
            if fed is None or not fed.pending:
                continue
            # The step that is about to be launched, of number ``steps - 1``, reads the condition before that one.
            reading = fed.steps - 2
            room = max(reading, 0) + CONDITIONS - fed.written
            if fed.written <= reading or room >= min(fed.known - fed.written, CONDITIONS // 2):
                brought.append(Fed(slot(request), fed.written, fed.take(room)))
        slots.feed(brought)

    def _frames(self, slots: Slots, batch: ScheduleBatch, result: GenerationBatchResult) -> Any:
        """The frame of each request as NumPy rows, complete when the rest of the result is."""
        with self._computing():
            frames = slots.frames[batch.req_pool_indices].to(torch.int16)
        if not frames.is_cuda:
            return frames.numpy()
        host = torch.empty(frames.shape, dtype=frames.dtype, pin_memory=True)
        stream = self.copy_stream if self.enable_overlap else torch.cuda.current_stream()
        stream.wait_stream(self.forward_stream if self.enable_overlap else stream)
        with torch.cuda.stream(stream):
            host.copy_(frames, non_blocking=True)
            frames.record_stream(stream)
            if result.copy_done is not None:
                result.copy_done.record()
            else:
                stream.synchronize()
        return host.numpy()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """On the stream that computes the batches, where what is done comes between two of them."""
        if not self.enable_overlap:
            yield
            return
        with self.forward_stream_ctx:
            yield

    def _sent(self, values: torch.Tensor) -> torch.Tensor:
        return values.pin_memory().to(self.device, non_blocking=True) if self.device == "cuda" else values.clone()


def _fed(request: Req) -> FedRow | None:
    params = request.sampling_params.custom_params
    return params.get(FED) if params else None


def _waits(request: Req) -> bool:
    fed = _fed(request)
    return fed is not None and not request.finished() and request.to_finish is None and not fed.ready
