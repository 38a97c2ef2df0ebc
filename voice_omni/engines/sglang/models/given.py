"""Embedding rows that stand for tokens of a prompt, where a prefill meets them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch


def given_rows(batch: ForwardBatch) -> Iterator[tuple[slice, torch.Tensor]]:
    """The rows that were given for positions which this batch computes: places in the batch, one behind another, and
    rows ``[n, width]`` on its device, in whichever type they were given."""
    if not batch.forward_mode.is_extend() or not batch.mm_inputs:
        return
    base = 0
    for media, start, length in zip(
        batch.mm_inputs, batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True
    ):
        for item in media.mm_items if media is not None else ():
            used = 0
            for first, last in item.offsets:
                begin, end = max(first, start), min(last + 1, start + length)
                if begin < end:
                    rows = item.precomputed_embeddings[used + begin - first : used + end - first]
                    yield slice(base + begin - start, base + end - start), _moved(rows, batch.input_ids.device)
                used += last + 1 - first
        base += length


def _moved(rows: torch.Tensor, device: torch.device) -> torch.Tensor:
    """From pinned memory, since a copy from any other would wait for what is computed on the device."""
    return rows.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else rows
