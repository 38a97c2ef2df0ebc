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
