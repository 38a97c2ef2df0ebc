"""Whether turns are complete, judged beside the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from voice_omni.audio.pcm import Samples
from voice_omni.session.smart_turn import SmartTurnModel


class TurnJudge(Protocol):
    def ask(self, samples: Samples) -> asyncio.Future[float]:
        """The probability that a turn, float32 ``[n]`` at 16 kHz with its pause, is complete."""
        ...


class SmartTurnJudge:
    """One small pool of threads for all sessions: a judgement computes for some 50 ms, which no event loop can spare.

    A future that is cancelled before its turn comes is not computed.
    """

    def __init__(self, model: SmartTurnModel, threads: int = 2) -> None:
        self._model = model
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="smart-turn")

    def ask(self, samples: Samples) -> asyncio.Future[float]:
        return asyncio.get_running_loop().run_in_executor(self._pool, self._model.probability, samples)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
