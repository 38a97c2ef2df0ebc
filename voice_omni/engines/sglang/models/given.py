"""Embedding rows that stand for tokens of a prompt, where a prefill meets them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch


def given_rows(batch: ForwardBatch) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The rows that were given for positions which this batch computes, of all its requests: their places in the
    batch, int64 ``[n]``, and rows ``[n, width]`` on its device, in the type that they were given in. Once for each
    ``width``; nothing is waited for."""
    if not batch.forward_mode.is_extend() or not batch.mm_inputs:
        return
    found: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for place, rows in _spans(batch):
        places, parts = found.setdefault(rows.shape[1], ([], []))
        places.append(torch.arange(place, place + len(rows)))
        parts.append(rows)
    for places, parts in found.values():
        yield _moved(torch.cat(places), batch.input_ids.device), _moved(torch.cat(parts), batch.input_ids.device)


def _spans(batch: ForwardBatch) -> Iterator[tuple[int, torch.Tensor]]:
    """Consecutive rows, and where in the batch the first one is."""
    base = 0
    for media, start, length in zip(
        batch.mm_inputs, batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True
    ):
        for item in media.mm_items if media is not None else ():
            used = 0
            for first, last in item.offsets:
                begin, end = max(first, start), min(last + 1, start + length)
                if begin < end:
                    yield base + begin - start, item.precomputed_embeddings[used + begin - first : used + end - first]
                used += last + 1 - first
        base += length


def _moved(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """From pinned memory, since a copy from any other would wait for what is computed on the device."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values
