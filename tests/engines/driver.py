"""Runs an engine as a scheduler would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from voice_omni.engines.interface import Engine, Row, RowOutput, Rows, Sampling


def row(
    name: str,
    prompt: list[int],
    *,
    tokens: int = 24,
    stop: frozenset[int] = frozenset(),
    prefix_len: int = 0,
    sampling: Sampling | None = None,
) -> Row:
    return Row(name, prompt, tokens, stop, sampling or Sampling(), prefix_len)


@dataclass
class Driver:
    engine: Engine
    tokens: dict[str, list[int]] = field(default_factory=dict)
    hidden: dict[str, list[Rows]] = field(default_factory=dict)
    finished: dict[str, RowOutput] = field(default_factory=dict)
    awake: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.free.set()
        self.engine.start(self.wake)

    def wake(self) -> None:
        self.awake.set()
        assert self.free.wait(timeout=60)

    @contextmanager
    def caught(self, row: Row) -> Iterator[None]:
        """Start a row and hold it at its first token, until the end of the block."""
        self.free.clear()
        self.engine.add(row)
        self.until(row.row_id, 1)
        try:
            yield
        finally:
            self.free.set()

    def turn(self) -> None:
        """Wait until there is something to do, and do it."""
        if not self.engine.busy:
            assert self.awake.wait(timeout=60), "the engine never woke its scheduler"
        self.awake.clear()
        for output in self.engine.step():
            assert output.row_id not in self.finished, "nothing may follow a row's end"
            self.tokens.setdefault(output.row_id, []).extend(output.tokens)
            self.hidden.setdefault(output.row_id, []).extend(() if output.hidden is None else output.hidden)
            if output.finish is not None:
                self.finished[output.row_id] = output

    def until(self, name: str, count: int) -> None:
        """Until a row has at least so many tokens or has ended."""
        while len(self.tokens.get(name, [])) < count and name not in self.finished:
            self.turn()

    def run(self, *rows: Row) -> dict[str, list[int]]:
        """The tokens of these rows, started together, at their end."""
        for each in rows:
            self.engine.add(each)
        self.finish(*(each.row_id for each in rows))
        return {each.row_id: self.tokens[each.row_id] for each in rows}

    def finish(self, *names: str) -> None:
        while any(name not in self.finished for name in names):
            self.turn()

    def reason(self, name: str) -> str | None:
        return self.finished[name].finish
