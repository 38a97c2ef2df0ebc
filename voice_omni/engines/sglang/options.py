"""What a stage says of its SGLang scheduler."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class SglangSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one scheduler on one device computes."""

    max_rows: Annotated[int, Meta(ge=1, description="rows in one decode batch; others wait in SGLang's queue")] = 64
    kv_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="positions in the KV pool; null: what the memory allows")
    ] = None
    memory_fraction: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(description="share of the device's memory for weights and KV pool together; null: SGLang's own estimate"),
    ] = None
    prefill_chunk: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="positions prefilled in a step at most, for which running rows wait; null: SGLang's choice"),
    ] = None
    prefill_patience_ms: Annotated[
        float,
        Meta(
            ge=0,
            le=1000,
            description="longest wait of what comes in while a person speaks, for more of its kind to be prefilled "
            "with; only while rows generate",
        ),
    ] = 200.0
    attention_backend: Annotated[str | None, Meta(description="by SGLang's name; null: SGLang's choice")] = None
    sampling_backend: Annotated[str, Meta(description="by SGLang's name")] = "pytorch"
    cuda_graphs: Annotated[bool, Meta(description="capture decode batches")] = True
    seeded: Annotated[
        bool,
        Meta(
            description="draws depend on a row's seed and position alone; this is SGLang's deterministic inference, "
            "which costs speed and needs an attention backend that has it"
        ),
    ] = False
    server_args: Annotated[
        dict[str, Any], Meta(description="more of SGLang's own ServerArgs, by their names; they win over the rest")
    ] = {}


class SglangOptions(SglangSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scheduler on one device, and what it computes.

    ``model``: a folder with a Hugging Face checkpoint. ``device``: ``cpu``, ``cuda`` or ``cuda:N``. ``dtype``: of
    weights and KV cache, ``auto`` for the checkpoint's. ``architecture``: the class that computes it, one of
    :mod:`.models` or of SGLang's own (None: what the checkpoint names). ``hidden_layer``: report what goes into this
    decoder layer as ``RowOutput.hidden``, of an architecture that can.
    """

    model: str
    device: str = "cuda"
    dtype: str = "auto"
    architecture: str | None = None
    hidden_layer: int | None = None
