"""Prefill graphs are told of a batch what SGLang's Triton attention makes of it for a prefill outside of graphs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from voice_omni.proto.errors import OmniError

SLOTS, CONTEXT = 4, 48
REQ_TO_TOKEN = torch.randperm(SLOTS * 2 * CONTEXT, generator=torch.Generator().manual_seed(0)).view(-1, CONTEXT)


class Outside:
    """As much of SGLang's backend as it needs for a prefill outside of graphs, on a CPU, where its kernels cannot run.
    What it asks for beside that is switched off."""

    dcp_size = 1
    device = "cpu"

    def __init__(self) -> None:
        self.kv_indptr = torch.zeros(SLOTS + 1, dtype=torch.int32)
        self.qo_indptr = torch.zeros(SLOTS + 1, dtype=torch.int64)

    def __getattr__(self, _name: str) -> None:
        return None

    def _fill_kv_indptr_and_indices(self, *args: Any) -> torch.Tensor:
        count, lengths, requests, places = args[-4:]
        starts = self.kv_indptr[: count + 1]
        starts[1:] = torch.cumsum(lengths, 0)
        found = [REQ_TO_TOKEN[request, :length] for request, length in zip(requests, lengths, strict=True)]
        places.copy_(torch.cat(found))
        return starts


def prefill(*requests: tuple[int, int, int], slots: int) -> Any:
    """A batch of requests by number, cached positions and new ones."""
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    numbers, cached, new = torch.tensor([*requests, *[(0, 0, 0)] * (slots - len(requests))]).unbind(1)
    positions = sum(request[2] for request in requests)
    return SimpleNamespace(
        forward_mode=ForwardMode.EXTEND,
        batch_size=slots,
        input_ids=torch.zeros(positions, dtype=torch.int64),
        req_pool_indices=numbers,
        seq_lens=cached + new,
        extend_prefix_lens=cached,
        extend_seq_lens=new,
        extend_prefix_lens_cpu=[request[1] for request in requests],
        extend_seq_lens_cpu=[request[2] for request in requests],
        out_cache_loc=None,
        spec_info=None,
        kv_loc_plan=None,
        encoder_lens=None,
    )


@pytest.fixture
def attention() -> Any:
    from voice_omni.engines.sglang.attention import PrefillGraphAttention

    made = object.__new__(PrefillGraphAttention)
    made.req_to_token = REQ_TO_TOKEN
    made._padded = None
    for size in (64, 16):
        made.init_forward_metadata_out_graph(prefill((0, 0, size), slots=SLOTS), in_capture=True)
    return made


@pytest.mark.parametrize(
    "requests",
    [
        [(3, 0, 16)],
        [(3, 40, 1)],
        [(5, 7, 9), (1, 0, 4)],
        [(6, 47, 2), (2, 12, 30), (7, 1, 5)],
        [(1, 5, 6), (2, 0, 7), (3, 48, 8), (4, 11, 9)],
    ],
)
def test_a_graph_reads_what_a_prefill_outside_of_it_would(attention: Any, requests: list[tuple[int, int, int]]) -> None:
    from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

    read = attention.forward_metadata
    outside: Any = Outside()
    TritonAttnBackend.init_forward_metadata(outside, prefill(*requests, slots=len(requests)))
    expected = outside.forward_metadata
    attention.init_forward_metadata_out_graph(prefill(*requests, slots=SLOTS))
    assert attention.forward_metadata is read
    count, missing = len(requests), SLOTS - len(requests)
    starts, kv_starts = expected.qo_indptr.tolist(), expected.kv_indptr.tolist()
    size = 16 if starts[-1] <= 16 else 64
    assert read.qo_indptr.tolist() == [*starts, *starts[-1:] * missing, size]
    assert read.kv_indptr.tolist() == [*kv_starts, *kv_starts[-1:] * (missing + 1)]
    assert read.kv_indices[: kv_starts[-1]].tolist() == expected.kv_indices.tolist()
    for name in ("qo_indptr", "kv_indptr", "kv_indices"):
        assert getattr(read, name).dtype == getattr(expected, name).dtype
    for name in ("custom_mask", "mask_indptr", "attn_logits", "num_kv_splits", "swa_out_cache_loc"):
        assert getattr(read, name) is None
        assert getattr(expected, name) is None
    assert count + missing == SLOTS


def test_a_graph_has_room_for_one_request_with_all_of_its_positions(attention: Any) -> None:
    assert attention.forward_metadata.max_extend_len == 16


def test_sglang_knows_it_by_name(tiny: Path) -> None:
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES

    from voice_omni.engines.sglang.registry import ATTENTION, register

    register()
    register()
    assert ATTENTION_BACKEND_CHOICES.count(ATTENTION) == 1
    assert ATTENTION in ATTENTION_BACKENDS


def test_layers_with_a_window_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

    from voice_omni.engines.sglang.attention import PrefillGraphAttention

    monkeypatch.setattr(TritonAttnBackend, "__init__", lambda self, runner: setattr(self, "sliding_window_size", 128))
    with pytest.raises(OmniError, match="window"):
        PrefillGraphAttention(None)


def test_seeded_draws_are_refused() -> None:
    """SGLang would compute without its radix cache, and prompts grow by it."""
    from voice_omni.engines.sglang.arguments import server_args
    from voice_omni.engines.sglang.options import SglangOptions

    with pytest.raises(OmniError, match="seeded") as raised:
        server_args(SglangOptions(model="-", device="cpu", attention_backend="voice_omni", seeded=True))
    assert raised.value.code == "invalid_config"
