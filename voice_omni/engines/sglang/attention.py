"""SGLang's Triton attention, in prefills that are one CUDA graph each."""

from __future__ import annotations

from typing import Any

from sglang.srt.layers.attention.triton_backend import ForwardMetadata, TritonAttnBackend
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

from voice_omni.engines.sglang.padded_prefill import PaddedPrefill
from voice_omni.proto.errors import OmniError

_PREFILL = (ForwardMode.EXTEND, ForwardMode.MIXED)


class PrefillGraphAttention(TritonAttnBackend):  # type: ignore[misc]
    """What SGLang's own refuses: what a graph of a whole prefill reads, kept apart from what graphs of decode steps do.

    Everything else, prefills outside of graphs among it, is SGLang's.
    """

    def __init__(self, runner: Any) -> None:
        super().__init__(runner)
        if (self.sliding_window_size or 0) > 0:
            raise OmniError("unsupported_model", "layers with a sliding window have no prefill graphs")
        self._padded: PaddedPrefill | None = None

    def init_forward_metadata_out_graph(self, forward_batch: ForwardBatch, in_capture: bool = False) -> None:
        """Before a graph of ``forward_batch`` is captured or replayed; for prefills the batch has all of the graph's
        places for requests, and those without one no length."""
        if forward_batch.forward_mode not in _PREFILL:
            super().init_forward_metadata_out_graph(forward_batch, in_capture)
            return
        if self._padded is None:
            self._padded = PaddedPrefill(forward_batch.batch_size, self.req_to_token)
        positions = len(forward_batch.input_ids)
        if in_capture:
            self._padded.add_size(positions)
        self._padded.fill(
            forward_batch.req_pool_indices,
            forward_batch.extend_prefix_lens,
            forward_batch.extend_seq_lens,
            sum(forward_batch.extend_prefix_lens_cpu),
            positions,
        )
        if in_capture:
            self.forward_metadata = _metadata(self._padded, positions)


def _metadata(padded: PaddedPrefill, positions: int) -> ForwardMetadata:
    """``positions``: as many as one request can have in the graph."""
    return ForwardMetadata(
        attn_logits=None,
        attn_lse=None,
        max_extend_len=positions,
        num_kv_splits=None,
        kv_indptr=padded.kv_starts,
        kv_indices=padded.kv_places,
        qo_indptr=padded.query_starts,
        custom_mask=None,
        mask_indptr=None,
        window_kv_indptr=None,
        window_kv_indices=None,
        window_num_kv_splits=None,
        window_kv_offsets=None,
    )
