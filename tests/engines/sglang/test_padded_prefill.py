"""What a prefill graph is told of a batch that has fewer positions and requests than the graph has places for."""

from __future__ import annotations

import pytest
import torch

from voice_omni.engines.sglang.padded_prefill import PaddedPrefill

SLOTS, REQUESTS, CONTEXT = 4, 6, 32
REQ_TO_TOKEN = torch.arange(100, 100 + REQUESTS * CONTEXT, dtype=torch.int32).view(REQUESTS, CONTEXT)


@pytest.fixture
def padded() -> PaddedPrefill:
    made = PaddedPrefill(SLOTS, REQ_TO_TOKEN)
    for size in (32, 8, 16):
        made.add_size(size)
    return made


def fill(padded: PaddedPrefill, *requests: tuple[int, int, int]) -> None:
    """Requests by number, cached positions and new ones; the missing ones are nobody's and have no length."""
    columns = torch.tensor([*requests, *[(0, 0, 0)] * (SLOTS - len(requests))]).unbind(1)
    padded.fill(*columns, sum(cached for _, cached, _ in requests), sum(new for _, _, new in requests))


def test_missing_requests_have_no_positions_and_those_too_many_are_one_sequence_more(padded: PaddedPrefill) -> None:
    fill(padded, (3, 0, 5), (1, 7, 6))
    assert padded.query_starts.tolist() == [0, 5, 11, 11, 11, 16]
    assert padded.kv_starts.tolist() == [0, 0, 7, 7, 7, 7]


def test_kv_is_found_request_after_request(padded: PaddedPrefill) -> None:
    fill(padded, (5, 3, 2), (2, 0, 1), (1, 4, 1))
    places = [*REQ_TO_TOKEN[5, :3].tolist(), *REQ_TO_TOKEN[1, :4].tolist()]
    assert padded.kv_starts.tolist() == [0, 3, 3, 7, 7, 7]
    assert padded.kv_places[:7].tolist() == places


@pytest.mark.parametrize(("new", "size"), [(1, 8), (8, 8), (9, 16), (17, 32), (32, 32)])
def test_a_batch_runs_in_the_smallest_graph_that_it_fits_in(padded: PaddedPrefill, new: int, size: int) -> None:
    fill(padded, (2, 9, new))
    assert padded.query_starts.tolist() == [0, new, new, new, new, size]


def test_every_request_has_all_of_its_context_cached(padded: PaddedPrefill) -> None:
    full = [(number, CONTEXT, 1) for number in range(SLOTS)]
    fill(padded, *full)
    assert padded.kv_places.tolist() == REQ_TO_TOKEN[:SLOTS].flatten().tolist()


def test_graphs_read_the_next_batch_where_they_read_the_last(padded: PaddedPrefill) -> None:
    read = padded.query_starts, padded.kv_starts, padded.kv_places
    fill(padded, (1, 20, 9), (2, 20, 9))
    fill(padded, (4, 2, 3))
    assert padded.query_starts is read[0]
    assert padded.kv_starts is read[1]
    assert padded.kv_places is read[2]
    assert read[0].tolist() == [0, 3, 3, 3, 3, 8]
    assert read[1].tolist() == [0, 2, 2, 2, 2, 2]
    assert read[2][:2].tolist() == REQ_TO_TOKEN[4, :2].tolist()
