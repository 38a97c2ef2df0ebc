"""SGLang's real scheduler on a CPU, or on the device that ``SGLANG_CONTRACT_DEVICE`` names.

``sglang`` is imported inside the fixtures: the project's own suite, which does not have it, reads this file too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engines.driver import PATIENCE_S, Driver
from tests.engines.sglang.contract import native
from tests.engines.sglang.contract.tiny import write_tiny_qwen3
from voice_omni.engines.interface import Feed, Piece

DEVICE = os.environ.get("SGLANG_CONTRACT_DEVICE", "cpu")


@dataclass
class Bench:
    """An engine with its driver, and every reply of its scheduler in order."""

    engine: Any
    replies: list[Any]
    driver: Driver = field(init=False)

    def __post_init__(self) -> None:
        self.driver = Driver(self.engine)

    @property
    def scheduler(self) -> Any:
        return self.engine._thread.scheduler

    def feed(self, name: str, *pieces: list[int], closed: bool = False) -> None:
        self.engine.feed(name, Feed([Piece(piece) for piece in pieces], closed))

    def settle(self) -> None:
        """Until the engine's last request has been answered."""
        while self.engine.stats()["requests"]:
            self.driver.turn()

    @property
    def dead(self) -> bool:
        """Whether its scheduler has died, with requests in it."""
        return self.engine._death is not None

    def assert_nothing_held(self) -> None:
        assert_nothing_held(self.scheduler)

    def cached(self) -> list[int]:
        """How much of its prompt each request found, in the order of their ends; read once."""
        counts = [reply.cached for reply in self.replies if reply.end is not None]
        self.replies.clear()
        return counts


def assert_nothing_held(scheduler: Any) -> None:
    """Every request's slot is free, and the KV pool holds nothing but what the cache may give up. SGLang tidies up
    after its last reply, so this need not be so at once."""
    deadline = time.monotonic() + PATIENCE_S
    while (held := _held(scheduler)) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not held


def _held(scheduler: Any) -> dict[str, int]:
    requests, cache = scheduler.req_to_token_pool, scheduler.tree_cache
    free = scheduler.token_to_kv_pool_allocator.available_size()
    counts = {
        "work": not scheduler.is_fully_idle(),
        "slots": requests.size - len(requests.free_slots),
        "positions": scheduler.max_total_num_tokens - free - cache.evictable_size(),
        "locked positions": cache.protected_size(),
    }
    return {name: count for name, count in counts.items() if count}


def chosen(model: Path, **options: Any) -> Any:
    """Options for the device of this run."""
    from voice_omni.engines.sglang.options import SglangOptions

    extra = dict(options.pop("server_args", {}))
    if DEVICE == "cpu":
        fitting = {"dtype": "float32", "attention_backend": "torch_native", "cuda_graphs": False}
    else:
        fitting = {"dtype": "float32", "attention_backend": "triton"}
        extra |= {"disable_prefill_cuda_graph": True, "cuda_graph_max_bs_decode": 8, "mem_fraction_static": 0.3}
    common = {"device": DEVICE, "max_rows": 8, "kv_tokens": 2048, "server_args": extra}
    return SglangOptions(model=str(model), **{**common, **fitting, **options})


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_qwen3(tmp_path_factory.mktemp("tiny-qwen3"))


@pytest.fixture(scope="session")
def smol() -> Path:
    return Path(os.environ["SGLANG_CONTRACT_SMOLLM2"])


@pytest.fixture(scope="session")
def omni() -> Path:
    """A tiny Qwen3-Omni, for the thinker in it."""
    return Path(os.environ["SGLANG_CONTRACT_QWEN3_OMNI"])


@pytest.fixture(scope="session")
def talker() -> Path:
    """The talker of a tiny Qwen3-Omni, with what the torch engine says in :mod:`.scenes`."""
    return Path(os.environ["SGLANG_CONTRACT_TALKER"])


@pytest.fixture(scope="session", autouse=True)
def _ready() -> Iterator[None]:
    """What has to be so before SGLang is imported."""
    # A leak in a pool ends the scheduler.
    os.environ["SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE"] = "1"
    # Compiling the penalty takes longer than all of these tests.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if DEVICE != "cpu":
        with pytest.MonkeyPatch.context() as patch:
            native.use(patch)
            yield
        return
    os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
    # Models this small gain nothing by more, and each of them would wait for a core that others use.
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    # So small matrices are slower on two.
    torch.set_num_threads(1)
    # SGLang imports torchvision, whose compiled half does not load beside a CPU build of torch. Its Python half wants
    # to know these two operators.
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    yield


@pytest.fixture(scope="module")
def make(_ready: None) -> Iterator[Callable[..., Bench]]:
    """Makes engines, one at a time."""
    from voice_omni.engines.sglang.engine import SglangEngine

    living: list[Bench] = []

    def close() -> None:
        while living:
            bench = living.pop()
            if not bench.dead:
                bench.assert_nothing_held()
            bench.engine.stop()
            assert set(bench.engine.stats().values()) == {0}

    def open_one(model: Path, **options: Any) -> Bench:
        close()
        replies: list[Any] = []
        bench = Bench(SglangEngine(chosen(model, **options), replies.append), replies)
        living.append(bench)
        return bench

    yield open_one
    close()


@pytest.fixture(scope="module")
def shared(make: Callable[..., Bench], tiny: Path) -> Bench:
    return make(tiny)


@pytest.fixture
def bench(shared: Bench) -> Iterator[Bench]:
    """One engine for a module. Tests keep their prompts apart by sessions of their own."""
    shared.replies.clear()
    yield shared
    assert set(shared.engine.stats().values()) == {0}
    shared.assert_nothing_held()
