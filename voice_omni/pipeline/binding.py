"""Which replica of each process serves a request. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replicas:
    """A process of the placement: the stages in it, and the nodes that run copies of it."""

    stages: tuple[str, ...]
    nodes: tuple[str, ...]


class Binder:
    """Binds each request to one live node per process, the one with the fewest requests."""

    def __init__(self, processes: Mapping[str, Replicas]) -> None:
        self._processes = dict(processes)
        self._live: set[str] = set()
        self._load: dict[str, int] = {node: 0 for replicas in processes.values() for node in replicas.nodes}

    def up(self, node: str) -> None:
        self._live.add(node)

    def down(self, node: str) -> None:
        self._live.discard(node)

    def is_live(self, node: str) -> bool:
        return node in self._live

    def missing(self, stages: Iterable[str]) -> tuple[str, ...]:
        """The stages that no live node runs."""
        return tuple(stage for stage in stages if not self._candidates(stage))

    def bind(self, stages: Iterable[str]) -> dict[str, str]:
        """A node for each stage; none of them may be missing. Pair with :meth:`release`."""
        bindings: dict[str, str] = {}
        for stage in stages:
            if stage not in bindings:
                chosen = min(self._candidates(stage), key=self._load.__getitem__)
                bindings.update(dict.fromkeys(self._replicas(stage).stages, chosen))
        bindings = {stage: bindings[stage] for stage in stages}
        for node in set(bindings.values()):
            self._load[node] += 1
        return bindings

    def release(self, bindings: Mapping[str, str]) -> None:
        for node in set(bindings.values()):
            self._load[node] -= 1

    def _replicas(self, stage: str) -> Replicas:
        return next(replicas for replicas in self._processes.values() if stage in replicas.stages)

    def _candidates(self, stage: str) -> list[str]:
        return [node for node in self._replicas(stage).nodes if node in self._live]
