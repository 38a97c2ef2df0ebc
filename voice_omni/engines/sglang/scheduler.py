"""SGLang's scheduler, fed from and read into this process instead of through sockets.

SGLang builds its scheduler from parts that methods of its own put in. Some of these are overridden here, each to put in
a part that this module brings; everything else is SGLang's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from queue import Empty, SimpleQueue
from typing import Any

from sglang.srt.managers.io_struct import ShutdownReq
from sglang.srt.managers.schedule_batch import NextBatchPlan, Req, ScheduleBatch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_components.ipc_channels import SchedulerIpcChannels
from sglang.srt.managers.scheduler_components.request_receiver import SchedulerRequestReceiver
from sglang.srt.server_args import PortArgs, ServerArgs

from voice_omni.engines.sglang.compat import alone, left_to_prefill
from voice_omni.engines.sglang.hidden import HiddenReader
from voice_omni.engines.sglang.models.qwen3_omni_thinker import Qwen3OmniThinker


class Inbox:
    """What the scheduler is asked, in order. Any thread may :meth:`put`; the scheduler's thread does the rest."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._woken: list[Any] = []
        self._closed = False

    def put(self, request: Any) -> None:
        self._queue.put(request)

    def close(self) -> None:
        """Let the event loop return."""
        self._closed = True
        self._queue.put(ShutdownReq())

    def take(self) -> list[Any]:
        """Everything that has come since the last time, without waiting."""
        requests, self._woken = self._woken, []
        while True:
            try:
                requests.append(self._queue.get_nowait())
            except Empty:
                return requests

    def maybe_sleep(self) -> None:
        """Wait for the next request: the scheduler calls this when it has nothing to do. SGLang's own loop would spin,
        and every other thread of the process would pay for that. When the inbox has been closed, the loop must get to
        see it."""
        if not self._closed:
            self._woken.append(self._queue.get())


@dataclass(frozen=True, slots=True)
class Outlet:
    """Stands where SGLang has a socket to its tokenizer or detokenizer process."""

    deliver: Callable[[Any], None]

    def send_output(self, output: Any, _request: Any = None) -> None:
        self.deliver(output)


class _InboxReceiver(SchedulerRequestReceiver):  # type: ignore[misc]
    def _pull_raw_reqs(self) -> list[Any]:
        requests: list[Any] = self.recv_from_tokenizer.take()
        return requests


class StageScheduler(Scheduler):  # type: ignore[misc]
    """``deliver`` gets every output, on the thread that runs :meth:`run_event_loop`: SGLang's own, and before those of
    a batch the :class:`~.hidden.HiddenRows` of its requests.

    A process holds one scheduler at a time, because SGLang keeps its arguments and process groups in globals.

    SGLang computes prefills for as long as there are any, and rows that decode stand still meanwhile. Here these have
    every other step, so what somebody hears waits for one prefill at most, whoever begins to speak; unless the KV pool
    is so full that a prompt, of which a part has been prefilled, would not have place any more.
    """

    request_receiver: SchedulerRequestReceiver

    def __init__(self, args: ServerArgs, inbox: Inbox, deliver: Callable[[Any], None]) -> None:
        self._inbox = inbox
        self._outlet = Outlet(deliver)
        self._hidden: HiddenReader | None = None
        self._prefilled = False
        super().__init__(args, PortArgs.init_new(args), **alone(args))

    def init_ipc_channels(self, port_args: PortArgs) -> None:
        self.ipc_channels = SchedulerIpcChannels(
            recv_from_tokenizer=self._inbox,
            recv_from_rpc=None,
            send_to_tokenizer=self._outlet,
            send_to_detokenizer=self._outlet,
            send_metrics_from_scheduler=None,
        )
        self.recv_from_tokenizer = self._inbox
        self.load_snapshot_writer = None

    def init_idle_sleeper(self) -> None:
        self.idle_sleeper = self._inbox

    def init_request_receiver(self) -> None:
        super().init_request_receiver()
        built = self.request_receiver
        parts = {part.name: getattr(built, part.name) for part in fields(built) if part.init}
        self.request_receiver = _InboxReceiver(**parts)

    def init_memory_pools(self) -> None:
        super().init_memory_pools()
        runner = self.tp_worker.model_runner
        if isinstance(runner.model, Qwen3OmniThinker):
            # Page 0 takes what padded positions write.
            runner.model.keep_rows(runner.token_to_kv_pool.size + runner.page_size)

    def init_overlap(self) -> None:
        super().init_overlap()
        model = self.tp_worker.model_runner.model
        if isinstance(model, Qwen3OmniThinker) and model.hidden_rows is not None:
            stream = self.forward_stream_ctx if self.enable_overlap else None
            self._hidden = HiddenReader(model.hidden_rows, self.req_to_token_pool.req_to_token, stream)

    def get_new_batch_prefill(self, running_batch: ScheduleBatch) -> NextBatchPlan:
        if self._prefilled and any(map(generates, running_batch.reqs)) and _leaves_room(self, running_batch):
            self._prefilled = False
            return NextBatchPlan(batch_to_run=None, running_batch=running_batch)
        in_chunks = self.chunked_req is not None
        plan = super().get_new_batch_prefill(running_batch)
        self._prefilled = plan.batch_to_run is not None
        if in_chunks and self.get_num_allocatable_reqs(len(plan.running_batch.reqs)) > 0:
            # SGLang 0.5.16 counts a prompt that is prefilled in chunks twice, takes the batch for full with one place
            # left, and looks again when a request has ended: seconds later.
            plan.running_batch.batch_is_full = False
        return plan

    def run_batch(self, batch: Any, *rest: Any, **named: Any) -> Any:
        result = super().run_batch(batch, *rest, **named)
        if self._hidden is not None:
            self._hidden.launched(batch)
        return result

    def process_batch_result(self, batch: Any, result: Any) -> None:
        if self._hidden is not None:
            for rows in self._hidden.processed():
                self._outlet.deliver(rows)
        super().process_batch_result(batch, result)


def generates(request: Req) -> bool:
    """Whether decode steps compute anything for it. A request that only prefills stays in the running batch as well,
    until its result has been looked at."""
    return bool(request.sampling_params.max_new_tokens)


def _leaves_room(scheduler: StageScheduler, batch: ScheduleBatch) -> bool:
    """Whether the rest of a prompt that is prefilled in chunks still fits behind a decode step of ``batch``. SGLang has
    admitted it for the place that there was, and dies if that is taken."""
    chunked = scheduler.chunked_req
    if chunked is None:
        return True
    free = scheduler.token_to_kv_pool_allocator.available_size() + scheduler.tree_cache.evictable_size()
    return bool(free - len(batch.reqs) * scheduler.page_size >= left_to_prefill(chunked))
