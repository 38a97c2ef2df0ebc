"""The thinker's stage as a pipeline has it, on SGLang: its runner, its scheduler on a thread, and what comes out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.models.qwen3_omni.segments import Segments
from voice_omni.engines.interface import Piece, Rows
from voice_omni.engines.sglang.rows import Reply
from voice_omni.models.qwen3_omni.wire import KEPT, PROMPT, TOKENS, USER
from voice_omni.proto.payload import Data, OmniRequest, StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    ConsumedOut,
    EndIn,
    FailedOut,
    New,
    Outgoing,
    ResultOut,
    StreamOut,
)
from voice_omni.scheduling.omni import OmniScheduler
from voice_omni.scheduling.options import OmniOptions

PATIENCE_S: Final = 60.0
"""Only reached when a test would hang otherwise."""


@dataclass(frozen=True)
class Case:
    """A prompt, what the published model says to it, and the rows of the inner layer where it was given rows."""

    piece: Piece
    said: list[int]
    hidden: Rows


def read_cases(file: Path) -> dict[str, Case]:
    fields: dict[str, dict[str, Any]] = {}
    with np.load(file) as stored:
        for key in stored:
            name, _, part = key.partition("/")
            fields.setdefault(name, {})[part] = stored[key]
    return {name: _case(**parts) for name, parts in fields.items()}


def _case(said: Any, tokens: Any, hidden: Any = None, **parts: Any) -> Case:
    return Case(Piece(tokens.tolist(), **parts), said.tolist(), np.empty((0, 0)) if hidden is None else hidden)


@dataclass
class Thought:
    """What came of one request. ``parts``: what the talker was shown."""

    tokens: list[int] = field(default_factory=list)
    parts: list[Data] = field(default_factory=list)
    ended: Outgoing | None = None
    taken_back: int = 0

    @property
    def hidden(self) -> Rows:
        return np.concatenate([part["hidden"] for part in self.parts])

    def show(self, data: Data) -> None:
        while KEPT in data and sum(len(part["tokens"]) for part in self.parts) > data[KEPT]:
            self.parts.pop()
            self.taken_back += 1
        self.parts.append(data[USER])


class Thinking:
    """``stage``: a runner and its engine."""

    def __init__(self, stage: tuple[Any, Any]) -> None:
        self.runner, self.engine = stage
        self.thoughts: dict[str, Thought] = {}
        self._answered = threading.Condition()
        self._cached: list[int] = []
        self.engine._observe = self._observe
        self._out: queue.SimpleQueue[Outgoing] = queue.SimpleQueue()
        self._segments: dict[str, Segments] = {}
        self._scheduler = OmniScheduler(self.runner, self.engine, OmniOptions(max_rows=16), self._out)
        self._thread = threading.Thread(target=self._scheduler.start, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The engine too."""
        self._scheduler.stop()
        self._thread.join()

    @property
    def stats(self) -> dict[str, int]:
        return self._scheduler.stats()

    def open(self, name: str, session: str | None = None, **params: Any) -> None:
        self.thoughts[name] = Thought()
        self._segments[name] = Segments()
        request = OmniRequest(request_id=name, route="test", params=params, session_id=session or name)
        self._scheduler.inbox.put(New(StagePayload(request), 10_000))

    def cached(self, count: int = 0) -> list[int]:
        """How much of its prompt each request of SGLang's found, in the order of their ends, when so many have ended
        since this was last asked."""
        with self._answered:
            assert self._answered.wait_for(lambda: len(self._cached) >= count, PATIENCE_S)
            cached, self._cached = self._cached, []
        return cached

    def _observe(self, reply: Reply) -> None:
        if reply.end is not None:
            with self._answered:
                self._cached.append(reply.cached)
                self._answered.notify_all()

    def chunk(self, name: str, data: Data) -> None:
        self._scheduler.inbox.put(ChunkIn(name, "preprocess" if PROMPT in data else "encoder", data))

    def prompt(self, name: str, *pieces: Piece) -> None:
        """Rows come before the segments that have their places, so that each piece is read as one."""
        for piece in pieces:
            for data in reversed(self._segments[name].of(piece)):
                self.chunk(name, data)

    def close(self, name: str) -> None:
        self.chunk(name, Segments.end())
        self._scheduler.inbox.put(EndIn(name))

    def abort(self, name: str) -> None:
        self._scheduler.inbox.put(AbortIn(name))

    def until(self, done: Callable[[], bool]) -> None:
        """Take in what comes out until then."""
        while not done():
            self._take(self._out.get(timeout=PATIENCE_S))

    def finish(self, *names: str) -> None:
        self.until(lambda: all(self.thoughts[name].ended is not None for name in names))

    def ask(self, name: str, *pieces: Piece, **how: Any) -> Thought:
        self.open(name, **how)
        self.prompt(name, *pieces)
        self.close(name)
        self.finish(name)
        return self.thoughts[name]

    def _take(self, message: Outgoing) -> None:
        thought = self.thoughts[message.request_id]
        assert thought.ended is None or isinstance(message, ConsumedOut), "nothing may follow a request's end"
        match message:
            case StreamOut(_, data):
                thought.tokens += data.get(TOKENS, ())
                if USER in data:
                    thought.show(data)
            case ResultOut() | AbortedOut() | FailedOut():
                thought.ended = message
