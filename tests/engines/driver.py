"""Runs an engine as a scheduler would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from voice_omni.engines.interface import Engine, Row, RowOutput, Rows, Sampling

PATIENCE_S: Final = 300
"""What takes longer hangs: no machine is that slow."""


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
    frames: dict[str, list[list[int]]] = field(default_factory=dict)
    hidden: dict[str, list[Rows]] = field(default_factory=dict)
    finished: dict[str, RowOutput] = field(default_factory=dict)
    awake: threading.Event = field(default_factory=threading.Event)
    _gate: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False
    _waiting: int = 0
    _let_by: int = 0

    def __post_init__(self) -> None:
        self.engine.start(self.wake)

    def wake(self) -> None:
        """On a thread of the engine's, which is held here between :meth:`hold` and :meth:`release`."""
        with self._gate:
            self.awake.set()
            if not self._closed:
                return
            self._waiting += 1
            assert self._gate.wait_for(lambda: not self._closed or self._let_by, timeout=PATIENCE_S)
            self._waiting -= 1
            self._let_by = max(self._let_by - 1, 0)

    def hold(self) -> None:
        """Hold every thread of the engine's that has something to tell from now on."""
        with self._gate:
            self._closed = True

    def release(self) -> None:
        with self._gate:
            self._closed = False
            self._gate.notify_all()

    @contextmanager
    def held(self, name: str, begin: Callable[[], None]) -> Iterator[None]:
        """Hold the engine at this row's next token after ``begin``, or its end, until the end of the block."""
        before = len(self.tokens.get(name, []))
        self.hold()
        try:
            begin()
            while True:
                self.turn()
                if name in self.finished or len(self.tokens.get(name, [])) > before:
                    break
                # Those that wait have told of something else: of what came before, or of another row.
                with self._gate:
                    self._let_by = self._waiting
                    self._gate.notify_all()
            yield
        finally:
            self.release()

    def caught(self, row: Row) -> AbstractContextManager[None]:
        """Start a row and hold it at its first token, until the end of the block."""
        return self.held(row.row_id, lambda: self.engine.add(row))

    def turn(self) -> None:
        """Wait until there is something to do, and do it."""
        if not self.engine.busy:
            assert self.awake.wait(timeout=PATIENCE_S), "the engine never woke its scheduler"
        self.awake.clear()
        for output in self.engine.step():
            assert output.row_id not in self.finished, "nothing may follow a row's end"
            self.tokens.setdefault(output.row_id, []).extend(output.tokens)
            self.frames.setdefault(output.row_id, []).extend(output.frames)
            self.hidden.setdefault(output.row_id, []).extend(() if output.hidden is None else output.hidden)
            if output.finish is not None or output.error is not None:
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
