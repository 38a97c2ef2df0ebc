"""The thread on which one SGLang scheduler lives."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import torch
from sglang.srt.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel
from sglang.srt.eplb.expert_location import set_global_expert_location_metadata
from sglang.srt.server_args import ServerArgs

from voice_omni.engines.interface import Rows
from voice_omni.engines.sglang.fed_scheduler import FedScheduler
from voice_omni.engines.sglang.models.qwen3_omni_thinker import Qwen3OmniThinker
from voice_omni.engines.sglang.prompt import Limits
from voice_omni.engines.sglang.scheduler import Inbox

SWITCH_S: Final = 0.0003
"""How long one thread may keep the interpreter from another. SGLang lets go of it with every operation that it
launches, hundreds of times in a step, and by Python's own 5 ms would wait as often for a stage that has much to do."""


class SchedulerThread:
    """Loads the model at once: returns when the scheduler can serve, all CUDA graphs captured. Raises what it raised.

    ``deliver`` gets every output and ``died`` an exception that ended the event loop, both on this thread.
    """

    scheduler: FedScheduler

    def __init__(self, args: ServerArgs, deliver: Callable[[Any], None], died: Callable[[BaseException], None]) -> None:
        self._args = args
        self._deliver = deliver
        self._died = died
        self._inbox = Inbox()
        self._loaded = threading.Event()
        self._failure: BaseException | None = None
        # A daemon: a computation that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="sglang-scheduler", daemon=True)
        self._thread.start()
        self._loaded.wait()
        if self._failure is not None:
            raise self._failure
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)

    @property
    def limits(self) -> Limits:
        config = self.scheduler.model_config
        if self.scheduler.slots is not None:
            suppressed = frozenset(config.hf_config.suppressed_codes)
            return Limits(config.vocab_size, config.hidden_size, framed=True, suppressed=suppressed)
        model = self._model
        if not isinstance(model, Qwen3OmniThinker):
            return Limits(config.vocab_size)
        layers = model.num_deepstack_embeddings
        return Limits(config.vocab_size, config.hidden_size, layers, model.hidden_rows is not None)

    @property
    def kv_tokens(self) -> int:
        """Positions in the KV pool."""
        count: int = self.scheduler.max_total_num_tokens
        return count

    @property
    def longest_prompt(self) -> int:
        """Positions that the model's context and the pool have place for."""
        count: int = self.scheduler.max_req_input_len
        return count

    def embed(self, frames: list[list[int]], conditions: Rows) -> Rows:
        """What a model with a frame head reads of whole frames with a condition each, float32 ``[n, width]``."""
        with torch.inference_mode():
            rows: torch.Tensor = self._model.embed(torch.tensor(frames, device=self.scheduler.device))
            rows = rows + torch.from_numpy(conditions).to(rows.device, rows.dtype)
            array: Rows = rows.float().cpu().numpy()
            return array

    @property
    def _model(self) -> Any:
        return self.scheduler.tp_worker.model_runner.model

    def put(self, request: Any) -> None:
        self._inbox.put(request)

    def stop(self) -> None:
        """Leave the event loop after the step that is running, and free the model and the KV pool."""
        self._inbox.close()
        self._thread.join()
        del self.scheduler
        sys.setswitchinterval(self._switch_s)
        destroy_model_parallel()
        destroy_distributed_environment()
        set_global_expert_location_metadata(None, allow_overwrite=True)

    def _run(self) -> None:
        # The scheduler is made where it runs: the current CUDA device and the gradient mode belong to a thread.
        try:
            self.scheduler = FedScheduler(self._args, self._inbox, self._deliver)
        except BaseException as error:  # noqa: BLE001 - raised on the thread that waits
            self._failure = error
            return
        finally:
            self._loaded.set()
        try:
            self.scheduler.run_event_loop()
        except BaseException as error:  # noqa: BLE001 - reported to the engine's owner
            self._died(error)
