"""Float32 on a GPU: SGLang's layers in the plain torch that it has beside its kernels.

Its kernels for norms, activations, routers and rotary embeddings are made for half precision, and the experts' kernel
takes float32 but rounds each of its products to float16. What is compared with a reference in float32, token by token,
cannot be computed with them. Everything else stays as it is served: the scheduler, decode graphs, the KV pool, Triton's
attention, and this project's own frame heads and slots.
"""

from __future__ import annotations

import pytest


def use(patch: pytest.MonkeyPatch) -> None:
    """For models that are made from now on, until ``patch`` is undone; products stay exact."""
    import torch
    from sglang.srt.layers.moe.fused_moe_native import fused_moe_forward_native
    from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod
    from sglang.srt.layers.utils import MultiPlatformOp

    patch.setattr(MultiPlatformOp, "dispatch_forward", lambda layer: layer.forward_native)
    # The experts' own plain way counts their tokens on the host, where no graph can follow.
    patch.setattr(UnquantizedFusedMoEMethod, "dispatch_forward", lambda _: fused_moe_forward_native)
    # Products of float32 have ten bits of it otherwise, in Triton by default and in cuBLAS if someone has asked for it.
    patch.setenv("TRITON_F32_DEFAULT", "ieee")
    torch.set_float32_matmul_precision("highest")
