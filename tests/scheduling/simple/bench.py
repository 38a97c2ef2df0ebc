"""A runner that does what the test tells it to, and a scheduler around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.scheduling import Clock, Collected, Simulation
from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.proto.payload import StagePayload
from voice_omni.scheduling.interface import (
    ChunkIn,
)
from voice_omni.scheduling.options import SimpleOptions
from voice_omni.scheduling.simple import SimpleScheduler


@dataclass
class State:
    request_id: str
    params: dict[str, Any]
    seen: list[Any] = field(default_factory=list)


class Runner:
    """Echoes every chunk, and gives all it has seen as the result. ``behave`` replaces that for one request."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.works: list[Work[State]] = []
        self.closed: Counter[str] = Counter()
        self.behave: dict[str, Callable[[Work[State]], Outcome]] = {}
        self.during_run: Callable[[], None] = lambda: None

    def open(self, payload: StagePayload) -> State:
        if "refuse" in payload.request.params:
            raise payload.request.params["refuse"]
        return State(payload.request_id, payload.request.params)

    def cost(self, work: Work[State]) -> float:
        cost = work.state.params.get("cost", 1.0)
        if isinstance(cost, Exception):
            raise cost
        return float(cost)

    def run(self, batch: Sequence[Work[State]]) -> Sequence[Outcome]:
        self.batches.append([work.request_id for work in batch])
        self.works += batch
        self.during_run()
        return [self.behave.get(work.request_id, self._echo)(work) for work in batch]

    def _echo(self, work: Work[State]) -> Outcome:
        data = [chunk.data["x"] for chunk in work.chunks]
        work.state.seen += data
        return Outcome([Emit({"x": x}) for x in data], {"seen": work.state.seen} if work.ended else None)

    def close(self, state: State) -> None:
        self.closed[state.request_id] += 1
        if "unclosable" in state.params:
            raise RuntimeError("cannot close")


def simulation(runner: Runner, **options: Any) -> Simulation:
    def build(outbox: Collected, clock: Clock) -> SimpleScheduler:
        return SimpleScheduler(runner, SimpleOptions(**options), outbox, clock)

    return Simulation(build)


def chunk(request_id: str, x: Any, source: str = "client") -> ChunkIn:
    return ChunkIn(request_id, source, {"x": x})
