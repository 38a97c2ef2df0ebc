"""From this project's options to SGLang's ``ServerArgs``."""

from __future__ import annotations

import json
from typing import Any, Final

from sglang.srt.server_args import ServerArgs

from voice_omni.engines.sglang.options import SglangOptions
from voice_omni.engines.sglang.registry import ATTENTION, register
from voice_omni.proto.errors import OmniError

NEVER_S: Final = 100_000_000
"""SGLang's watchdog ends the parent process of the one that hangs. That is the whole server here, which has a watch of
its own over its stages. The watchdog cannot be left out."""


def server_args(options: SglangOptions) -> ServerArgs:
    """The arguments of one scheduler that shares its process with a stage: token ids go in, and each one comes out as
    soon as it is known. Raises :class:`OmniError` ``invalid_config``."""
    if options.seeded and options.attention_backend == ATTENTION:
        # SGLang would switch its radix cache off, on which prompts that grow depend, and only log it.
        raise OmniError("invalid_config", f"'seeded' cannot be had with the attention backend '{ATTENTION}'")
    register()
    device, _, number = options.device.partition(":")
    values = {
        "model_path": options.model,
        "device": device,
        "base_gpu_id": int(number or 0),
        "dtype": options.dtype,
        "max_running_requests": options.max_rows,
        "max_total_tokens": options.kv_tokens,
        "mem_fraction_static": options.memory_fraction,
        "chunked_prefill_size": options.prefill_chunk,
        "attention_backend": options.attention_backend,
        "sampling_backend": options.sampling_backend,
        "disable_cuda_graph": not options.cuda_graphs,
        "enable_deterministic_inference": options.seeded,
        "skip_tokenizer_init": True,
        "grammar_backend": "none",
        "enable_custom_logit_processor": True,
        "stream_interval": 1,
        "json_model_override_args": json.dumps(_overrides(options)),
        "watchdog_timeout": NEVER_S,
        "log_level": "warning",
    }
    return ServerArgs(**{**values, **options.server_args})


def _overrides(options: SglangOptions) -> dict[str, Any]:
    """What the model's class reads in its configuration beside what the checkpoint says."""
    overrides: dict[str, Any] = {}
    if options.architecture is not None:
        overrides["architectures"] = [options.architecture]
    if options.hidden_layer is not None:
        overrides["hidden_layer"] = options.hidden_layer
    return overrides
