"""Where the releases of SGLang that this project runs on differ."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt import runtime_context
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.server_args import ServerArgs


def alone(args: ServerArgs) -> dict[str, Any]:
    """Makes this process the only rank. Returns what SGLang's scheduler wants to be told of that when it is made.

    That of 0.5.16 takes its ranks. That of 0.5.23 finds them, beside the arguments, in what its process has published
    last.
    """
    if not hasattr(runtime_context, "SpawnRanks"):
        ranks = {"tp_rank": 0, "moe_ep_rank": 0, "pp_rank": 0, "attn_cp_rank": 0, "moe_dp_rank": 0, "dp_rank": None}
        return {"gpu_id": args.base_gpu_id, **ranks}
    ranks = runtime_context.SpawnRanks(world_rank=0, gpu_id=args.base_gpu_id)
    runtime_context.publish(args, role="scheduler", ranks=ranks)
    return {}


def prefill_graphs() -> Any:
    """What has been decided on CUDA graphs of prefills: ``backend`` and ``bs``, the sizes."""
    config = runtime_context.get_server_args().cuda_graph_config
    if config is None:
        # In 0.5.23 the arguments hold what was asked for, and this what came of it.
        config = runtime_context.get_exec().graph.cuda_graph_config
    return config.prefill


def layer_rows(output: Any, batch: ForwardBatch) -> torch.Tensor:
    """What a decoder layer has given, ``[n, width]``: SGLang leaves its last sum to whatever comes next."""
    if isinstance(output, tuple):
        hidden, residual = output
        rows: torch.Tensor = hidden + residual
    else:
        # In 0.5.23 the residual lies in the batch.
        rows = batch.residual_stream.snapshot(output)
    return rows


def slot(request: Req) -> int:
    """The number of a request that holds KV, in ``req_to_token``."""
    # In 0.5.23 it is with what else the request holds.
    holder = request if hasattr(request, "req_pool_idx") else request.kv
    number: int = holder.req_pool_idx
    return number


def left_to_prefill(request: Req) -> int:
    """Positions of a prompt, or of what is computed again of a row, whose KV has not been computed."""
    # In 0.5.23 the number is there, and not where the positions are.
    done = request.prefix_len if hasattr(request, "prefix_len") else len(request.prefix_indices)
    return len(request.origin_input_ids) + len(request.output_ids) - int(done)
