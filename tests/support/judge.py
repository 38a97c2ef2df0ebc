"""Judges of complete turns that need no thread, for clocks that jump."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from voice_omni.audio.pcm import Samples
from voice_omni.session.smart_turn import SmartTurnModel
from voice_omni.session.weights import SMART_TURN
from voice_omni.weights import fetch


class InlineJudge:
    """Answers after ``seconds`` on the loop's clock. ``asked``: the sound of every question so far."""

    def __init__(self, probability: Callable[[Samples], float], seconds: float = 0.0) -> None:
        self.asked: list[Samples] = []
        self._probability = probability
        self._seconds = seconds

    def ask(self, samples: Samples) -> asyncio.Future[float]:
        self.asked.append(samples)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[float] = loop.create_future()
        loop.call_later(self._seconds, lambda: future.cancelled() or future.set_result(self._probability(samples)))
        return future


@pytest.fixture(scope="session")
def smart_turn() -> SmartTurnModel:
    return SmartTurnModel(fetch(SMART_TURN, quiet=True) / SMART_TURN.files[0])
