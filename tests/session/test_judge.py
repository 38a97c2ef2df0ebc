"""Judging turns beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from tests.support.patience import PATIENCE_S
from tests.support.speech import recording
from voice_omni.audio.pcm import Samples
from voice_omni.session.judge import SmartTurnJudge
from voice_omni.session.smart_turn import SmartTurnModel


class Blocking:
    """A model that computes until it is let go."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.calls: list[str] = []

    def probability(self, samples: Samples) -> float:
        self.calls.append(threading.current_thread().name)
        self.began.set()
        self.go.wait(PATIENCE_S)
        return 0.25


async def test_the_loop_runs_on_while_threads_compute_and_a_cancelled_question_is_not_computed() -> None:
    model = Blocking()
    judge = SmartTurnJudge(model, threads=1)  # type: ignore[arg-type]
    first, second = judge.ask(np.zeros(1, np.float32)), judge.ask(np.zeros(1, np.float32))
    await asyncio.to_thread(model.began.wait, PATIENCE_S)
    second.cancel()
    await asyncio.sleep(0.01)  # the loop tells the pool
    assert not first.done()
    model.go.set()
    assert await first == 0.25
    judge.close()
    assert model.calls == ["smart-turn_0"]


async def test_many_sessions_get_the_answers_that_one_would(smart_turn: SmartTurnModel) -> None:
    sounds = [recording(f"question-0{number}").samples(16000) for number in range(1, 5)]
    judge = SmartTurnJudge(smart_turn)
    together = await asyncio.gather(*(judge.ask(sound) for sound in sounds))
    judge.close()
    assert together == pytest.approx([smart_turn.probability(sound) for sound in sounds], abs=1e-6)
