"""Where the attention of a prefill graph finds queries and KV: in tensors that stay where the graph has read them."""

from __future__ import annotations

from bisect import bisect_left

import torch


class PaddedPrefill:
    """Describes one batch after another to graphs that were captured with places for ``slots`` requests.

    A graph computes as many positions as it was captured with, and its batch may have fewer, and fewer requests. The
    requests that are missing have no positions. The positions that are too many come last, and belong to one sequence
    more, which sees itself alone: so they too are given numbers, where an attention kernel that left them out would
    leave what lay in memory, and what a router makes of that is anybody's guess.

    ``query_starts``: int64 ``[slots + 2]``, the first position in the batch of each sequence, and the end of the last.
    ``kv_starts``: int32 ``[slots + 2]``, the same in ``kv_places``. ``kv_places``: int64, where in the KV pool the
    positions before the batch's own are, sequence after sequence; only as far as ``kv_starts`` says.
    """

    def __init__(self, slots: int, req_to_token: torch.Tensor) -> None:
        """``req_to_token``: ``[requests, positions]``, where in the KV pool each position of each request is."""
        device = req_to_token.device
        self._req_to_token = req_to_token
        self._sizes: list[int] = []
        self.slots = slots
        self.query_starts = torch.zeros(slots + 2, dtype=torch.int64, device=device)
        self.kv_starts = torch.zeros(slots + 2, dtype=torch.int32, device=device)
        self.kv_places = torch.zeros(slots * req_to_token.shape[1], dtype=torch.int64, device=device)

    def add_size(self, positions: int) -> None:
        """There will be a graph of so many positions."""
        self._sizes = sorted({*self._sizes, positions})

    def fill(
        self, requests: torch.Tensor, cached: torch.Tensor, new: torch.Tensor, cached_sum: int, positions: int
    ) -> None:
        """Describe a batch, without waiting for the device.

        ``requests``, ``cached`` and ``new``: ``[slots]`` on the device, the requests' numbers in ``req_to_token``, how
        many of their positions are in the KV pool, and how many are computed. ``cached_sum``: the sum of ``cached``.
        ``positions``: how many the batch has; it is replayed in the smallest graph that they fit in.
        """
        last = self.slots + 1
        torch.cumsum(new, 0, dtype=torch.int64, out=self.query_starts[1:last])
        self.query_starts[last:].fill_(self._sizes[bisect_left(self._sizes, positions)])
        torch.cumsum(cached, 0, dtype=torch.int32, out=self.kv_starts[1:last])
        self.kv_starts[last:].copy_(self.kv_starts[last - 1 : last])
        if cached_sum:
            of = torch.repeat_interleave(cached, output_size=cached_sum)
            nth = torch.arange(cached_sum, device=of.device) - self.kv_starts[of]
            self.kv_places[:cached_sum] = self._req_to_token[requests[of], nth].long()
