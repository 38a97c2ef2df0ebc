"""What a stage computes once before it is ready: the first call of a kind chooses kernels, compiles and takes memory,
which would make the first answer of a new process late."""

from __future__ import annotations

from typing import Any, Final

from voice_omni.engines.interface import Engine, Row, Sampling
from voice_omni.model_runner.interface import BatchRunner, Chunk, Work
from voice_omni.proto.payload import OmniRequest, StagePayload

_NAME: Final = "warm-up"
_PROMPT: Final = [0] * 16
_SAMPLED: Final = Sampling(temperature=1.0, top_k=50)


def encode_once(runner: BatchRunner[Any], chunk: Chunk) -> None:
    """One request of the route ``speech`` with this chunk. Raises what the runner does."""
    state = runner.open(StagePayload(OmniRequest(request_id=_NAME, route="speech")))
    try:
        (outcome,) = runner.run([Work(_NAME, state, (chunk,), True)])
    finally:
        runner.close(state)
    if outcome.error is not None:
        raise outcome.error


def generate_once(engine: Engine) -> None:
    """A row of a short prompt and two tokens, of which the engine keeps nothing. Raises what makes the row fail.

    For a synchronous engine that nobody else drives yet.
    """
    engine.add(Row(_NAME, _PROMPT, max_new_tokens=2, stop=frozenset(), sampling=_SAMPLED))
    while engine.busy:
        for output in engine.step():
            if output.error is not None:
                raise output.error
