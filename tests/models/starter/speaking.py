"""Drives the talker and the decoder as their schedulers do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice_omni.model_runner.interface import Chunk, Work
from voice_omni.models.starter.code2wav import Code2WavRunner, Stream
from voice_omni.models.starter.talker import TalkerRunner
from voice_omni.proto.payload import Data, OmniRequest, StagePayload

Samples = NDArray[np.float32]


def payload(text: str | None = None, **params: Any) -> StagePayload:
    inputs = {} if text is None else {"text": text}
    return StagePayload(OmniRequest(request_id="r", route="speak", inputs=inputs, params=params))


def talk(runner: TalkerRunner, pieces: Iterable[str], **params: Any) -> tuple[list[Data], Data]:
    """What the talker streams out for text that comes in ``pieces``, and its result."""
    state = runner.open(payload(**params))
    emitted: list[Data] = []

    def step(chunks: list[Chunk], ended: bool) -> Data | None:
        while True:
            (outcome,) = runner.run([Work("r", state, chunks, ended)])
            emitted.extend(emit.data for emit in outcome.emits)
            if not outcome.more:
                return outcome.result
            chunks = []

    for piece in pieces:
        assert step([Chunk("thinker", {"text": piece})], False) is None
    result = step([], True)
    assert result is not None
    runner.close(state)
    return emitted, result


def marks_of(chunks: Iterable[Data]) -> str:
    return "".join(text for chunk in chunks for _, text in chunk["marks"])


def decoded(runner: Code2WavRunner, stream: Stream, ended: bool, frames: Callable[[], int]) -> Iterator[Data]:
    """Everything that can be decoded now, ``frames()`` at a time."""
    while ready := runner.ready(stream, ended):
        (output,) = runner.decode([(stream, min(ready, frames()))])
        assert not isinstance(output, Exception)
        yield output
