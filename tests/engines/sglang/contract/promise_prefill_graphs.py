"""SGLang's runner of prefill graphs computes with this project's models and attention what they compute without it.

Played on a CPU: a graph is what was called when it was captured, called again on the tensors that it was called with
then. The attention computes from what Triton's kernels would read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.engines.sglang.contract.conftest import DEVICE, Bench
from tests.engines.sglang.contract.promise_hidden import THINKER, TOLERANCE, opened, prompt
from tests.engines.sglang.contract.scenes import SCENES
from voice_omni.engines.interface import Feed, Piece, Row, Rows

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="plays what a GPU has")

SIZES, SLOTS = [2, 4, 8, 16, 32], 4
NEVER: frozenset[int] = frozenset()
CONTEXT = "get_tc_piecewise_forward_context"


def attention(native: Any) -> Any:
    """This project's, with ``native`` for whatever is not in a graph."""
    from voice_omni.engines.sglang.attention import PrefillGraphAttention

    class Played(PrefillGraphAttention):
        captured: Any = None

        def __init__(self) -> None:
            self.req_to_token = native.req_to_token_pool.req_to_token
            self._padded = None

        def __getattr__(self, name: str) -> Any:
            return getattr(native, name)

        def init_forward_metadata(self, batch: Any) -> None:
            native.init_forward_metadata(batch)

        def forward_decode(self, *args: Any, **named: Any) -> Any:
            return native.forward_decode(*args, **named)

        def forward_extend(self, q: Any, k: Any, v: Any, layer: Any, batch: Any, *rest: Any, **named: Any) -> Any:
            if self.captured is None:
                return native.forward_extend(q, k, v, layer, batch, *rest, **named)
            return self._read(self.captured, q, k, v, layer, batch)

        def _read(self, read: Any, q: Any, k: Any, v: Any, layer: Any, batch: Any) -> Any:
            from sglang.srt.mem_cache.memory_pool import KVWriteLoc

            pool = native.token_to_kv_pool
            pool.set_kv_buffer(layer, KVWriteLoc(batch.out_cache_loc, None), k, v)
            keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
            q = q.view(len(k), layer.tp_q_head_num, -1)
            # What no sequence has is not to be read.
            out = torch.full((len(k), q.shape[1], v.shape[-1]), torch.nan)
            starts, kv_starts = read.qo_indptr.tolist(), read.kv_indptr.tolist()
            for number in range(len(starts) - 1):
                new = slice(starts[number], starts[number + 1])
                places = read.kv_indices[kv_starts[number] : kv_starts[number + 1]]
                count = new.stop - new.start
                assert count <= read.max_extend_len
                allowed = torch.ones(count, len(places) + count, dtype=torch.bool).tril(len(places))
                out[new] = torch.nn.functional.scaled_dot_product_attention(
                    q[new].transpose(0, 1)[None],
                    torch.cat((keys[places], k[new])).transpose(0, 1)[None],
                    torch.cat((values[places], v[new])).transpose(0, 1)[None],
                    attn_mask=allowed,
                    scale=layer.scaling,
                    enable_gqa=True,
                )[0].transpose(0, 1)
            return out.flatten(1)

    return Played()


@contextmanager
def graphs(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Prefills run in graphs until the end of the block. Gives each one's requests and positions, ``-`` if in none."""
    from sglang.srt.layers import radix_attention
    from sglang.srt.model_executor.runner import prefill_cuda_graph_runner as module
    from sglang.srt.model_executor.runner_backend.full_cuda_graph_backend import FullCudaGraphBackend

    from voice_omni.engines.sglang.compat import prefill_graphs

    played = attention(runner.attn_backend)
    layers = runner.model.model
    compute = layers.forward

    def capture_one(self: Any, key: Any, forward: Callable[[], Any], **_rest: Any) -> None:
        self._graphs[key] = (played.forward_metadata, forward)

    def replay(self: Any, key: Any, *_rest: Any, **_named: Any) -> Any:
        played.captured, forward = self._graphs[key]
        replays, layers.forward = layers.forward, compute
        try:
            return forward()
        finally:
            played.captured, layers.forward = None, replays

    monkeypatch.setattr(FullCudaGraphBackend, "capture_one", capture_one)
    monkeypatch.setattr(FullCudaGraphBackend, "replay", replay)
    monkeypatch.setattr(FullCudaGraphBackend, "capture_session", lambda self, stream: nullcontext())
    monkeypatch.setattr(module, "graph_capture", lambda *_: nullcontext(SimpleNamespace(stream=None)))
    monkeypatch.setattr(module.PrefillCudaGraphRunner, "warmup", lambda self: None)
    monkeypatch.setattr(module, "get_available_gpu_memory", lambda *_args, **_named: 0.0)
    # The operator that calls the attention in a graph is there for CUDA alone.
    monkeypatch.setattr(radix_attention, CONTEXT, lambda: None)
    config = prefill_graphs()
    for name, value in (("backend", "full"), ("bs", SIZES), ("full_prefill_max_req", SLOTS)):
        monkeypatch.setattr(config, name, value)
    before = runner.prefill_cuda_graph_runner, runner.attn_backend
    runner.attn_backend = played
    runner.init_prefill_cuda_graph()
    made = runner.prefill_cuda_graph_runner
    assert isinstance(made, module.PrefillCudaGraphRunner)
    ran: list[str] = []
    can = made.can_run_graph

    def counted(batch: Any) -> bool:
        chosen: bool = can(batch)
        ran.append(f"{batch.batch_size}x{len(batch.input_ids)}{'' if chosen else '-'}")
        return chosen

    made.can_run_graph = counted
    try:
        yield ran
    finally:
        runner.prefill_cuda_graph_runner, runner.attn_backend = before


@pytest.fixture(scope="module")
def shared(make: Callable[..., Bench], omni: Path) -> Bench:
    return make(omni, prefill_patience_ms=0, **THINKER)


@pytest.fixture
def runner(bench: Bench) -> Any:
    return runner_of(bench)


def runner_of(bench: Bench) -> Any:
    from sglang.srt.layers import radix_attention

    if not hasattr(radix_attention, CONTEXT):
        pytest.skip("this release's runner of prefill graphs is made of other parts than are played here")
    return bench.scheduler.tp_worker.model_runner


@pytest.fixture(scope="module")
def table(omni: Path) -> Rows:
    from safetensors.torch import load_file

    rows: Rows = load_file(omni / "model.safetensors")["thinker.model.embed_tokens.weight"].float().numpy()
    return rows


def say(bench: Bench, way: str, crowd: dict[str, list[Piece]]) -> dict[str, tuple[list[int], Rows]]:
    """What rows are told piece by piece, of which the scheduler takes up the same piece of all of them together."""
    names = {name: f"{way}: {name}" for name in crowd}
    for name in names.values():
        bench.engine.add(opened(name, tokens=5))
    rounds = max(map(len, crowd.values()))
    for number in range(rounds):
        starter = Row(f"{way}: {number} of {', '.join(crowd)}", [7, 8, 9], 1, NEVER)
        with bench.driver.held(starter.row_id, partial(bench.engine.add, starter)):
            for name, pieces in crowd.items():
                bench.engine.feed(names[name], Feed([pieces[number]], closed=number + 1 == rounds))
        if number + 1 < rounds:
            bench.settle()
    bench.driver.finish(*names.values())
    return {name: (bench.driver.tokens[row], np.stack(bench.driver.hidden[row])) for name, row in names.items()}


def crowds(table: Rows) -> Iterator[dict[str, list[Piece]]]:
    """Rows alone and in crowds, with and without a prefix, in padded graphs and in full ones, and of more positions or
    rows than a graph has places for."""
    for seed, lengths in enumerate(([[9]], [[16]], [[40]], [[12, 5]], [[40, 7]], [[12, 50]], [[30, 3], [9, 8]])):
        yield {f"{seed}.{n}": prompt(table, 10 * seed + n, *each, deep=True) for n, each in enumerate(lengths)}
    for seed, count in ((100, SLOTS), (200, SLOTS + 1)):
        yield {f"{seed}.{n}": prompt(table, seed + n, 11 + n, 3 + n, deep=n % 2 == 1) for n in range(count)}


def test_the_thinker_says_in_graphs_what_it_says_without(
    bench: Bench, runner: Any, table: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [say(bench, "eager", crowd) for crowd in crowds(table)]
    runner.model.feed_prefill_graphs(max(SIZES))
    with graphs(runner, monkeypatch) as ran:
        said = [say(bench, "graph", crowd) for crowd in crowds(table)]
    assert {"1x9", "1x16", "1x40-", "1x5", "2x11", f"{SLOTS}x18", f"{SLOTS + 1}x25-"} <= set(ran)
    for ours, theirs in zip(said, expected, strict=True):
        for name, (tokens, rows) in theirs.items():
            assert ours[name][0] == tokens, name
            np.testing.assert_allclose(ours[name][1], rows, rtol=0, atol=TOLERANCE, err_msg=name)


def test_the_talker_writes_in_graphs_what_it_writes_without(
    make: Callable[..., Bench], talker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.loads((talker / "said.json").read_text())
    bench = make(talker, kv_tokens=4096, max_rows=6)
    runner = runner_of(bench)
    crowd = ["endless", "short", "no text", "two tokens"]
    with graphs(runner, monkeypatch) as ran:
        for name in crowd:
            bench.engine.add(SCENES[name].row(f"{name} alone"))
            bench.engine.feed(f"{name} alone", SCENES[name].whole)
            bench.driver.finish(f"{name} alone")
        scene = SCENES["long prompt"]
        bench.engine.add(scene.row("blocks"))
        for piece in scene.pieces:
            bench.engine.feed("blocks", Feed([piece]))
            bench.settle()
        bench.engine.feed("blocks", Feed(closed=True, conditions=scene.conditions, ended=True))
        bench.driver.finish("blocks")
    assert not all(each.endswith("-") for each in ran)
    for name in crowd:
        assert bench.driver.frames[f"{name} alone"] == said[name]["frames"]
    assert bench.driver.frames["blocks"] == said["long prompt"]["frames"]
    assert {"1x13", "1x40-", "1x30"} <= set(ran)
