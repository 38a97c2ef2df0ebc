"""What a stage says of its SGLang scheduler."""

from __future__ import annotations

from typing import Any

import msgspec


class SglangOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scheduler on one device.

    ``model``: a folder with a Hugging Face checkpoint. ``dtype``: of weights and KV cache, ``auto`` for the
    checkpoint's. ``max_rows``: rows in one decode batch; others wait in SGLang's queue. ``kv_tokens``: positions in
    the KV pool (None: what ``memory_fraction`` leaves). ``memory_fraction``: share of the device's memory for weights
    and KV pool together (None: SGLang's own estimate). ``prefill_chunk``: positions prefilled per step at most (None:
    SGLang's choice), which bounds how long a running row waits for a new one. ``cuda_graphs``: capture decode batches.
    ``seeded``: draws depend on a row's seed and position alone; this is SGLang's deterministic inference, which costs
    speed and needs an attention backend that supports it. ``server_args``: more of SGLang's own ``ServerArgs``, by
    their names there; they win over the rest.
    """

    model: str
    device: str = "cuda"
    dtype: str = "auto"
    max_rows: int = 64
    kv_tokens: int | None = None
    memory_fraction: float | None = None
    prefill_chunk: int | None = None
    attention_backend: str | None = None
    sampling_backend: str = "pytorch"
    cuda_graphs: bool = True
    seeded: bool = False
    server_args: dict[str, Any] = {}
