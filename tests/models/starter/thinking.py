"""Drives the thinker and its engine as their scheduler does."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from tests.support.patience import PATIENCE_S
from voice_omni.engines.interface import Engine
from voice_omni.models.starter.think import ThinkerRunner
from voice_omni.proto.payload import Data, OmniRequest, StagePayload


def payload(messages: list[Data], *, heard: str | None = None, **params: Any) -> StagePayload:
    request = OmniRequest(request_id="r", route="speech", inputs={"messages": messages}, params=params)
    return StagePayload(request, {} if heard is None else {"encoder": {"transcript": heard}})


def user(content: str) -> Data:
    return {"role": "user", "content": content}


def assistant(content: str) -> Data:
    return {"role": "assistant", "content": content}


@dataclass
class Thinker:
    runner: ThinkerRunner
    engine: Engine
    awake: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.engine.start(self.awake.set)

    def think(self, opening: StagePayload) -> tuple[list[str], Data]:
        """The pieces of the answer, and the result."""
        state, row = self.runner.open(opening)
        self.engine.add(row)
        pieces: list[str] = []
        result: Data | None = None
        while set(self.engine.stats().values()) != {0}:
            assert self.awake.wait(PATIENCE_S)
            self.awake.clear()
            for output in self.engine.step():
                if result is None:
                    outcome = self.runner.advance(state, output)
                    pieces += (emit.data["text"] for emit in outcome.emits)
                    result = outcome.result
                    if result is not None and output.finish is None:
                        self.engine.remove(row.row_id)
        self.runner.close(state)
        assert result is not None
        return pieces, result

    def answer(self, *messages: Data, **params: Any) -> str:
        return str(self.think(payload(list(messages), **params))[1]["text"])
