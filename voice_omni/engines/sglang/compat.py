"""Where the releases of SGLang that this project runs on differ."""

from __future__ import annotations

from typing import Any

from sglang.srt import runtime_context
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
