"""Feeds a session's ear at the pace that keeps it exact: slices, judgements from beside the loop, sound that stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from voice_omni.audio.pcm import Samples
from voice_omni.session.counters import TurnCounters
from voice_omni.session.hearing import SLICE_MS, Heard, Hearing, HearingEvent, Question
from voice_omni.session.judge import TurnJudge
from voice_omni.session.options import SessionOptions
from voice_omni.session.timers import Timers

_log = logging.getLogger(__name__)


class Ear:
    """Everything about listening that needs an event loop. What is heard is handed to ``heard``, in order."""

    def __init__(
        self,
        hearing: Hearing,
        judge: TurnJudge | None,
        timers: Timers,
        options: SessionOptions,
        counters: TurnCounters,
        clock: Callable[[], float],
        heard: Callable[[Iterable[HearingEvent]], None],
        session_id: str,
    ) -> None:
        """``judge`` None: silence decides alone."""
        self.hearing = hearing
        self._judge = judge
        self._timers = timers
        self._options = options
        self._counters = counters
        self._clock = clock
        self._heard = heard
        self._id = session_id
        self._last_sound = 0.0
        self._stalled = False
        self._judgement: asyncio.Future[float] | None = None
        self._answered = asyncio.Event()

    async def listen(self, samples: Samples, sample_rate: int) -> None:
        """Sound is worked through in short slices: after each the other sessions get their turn."""
        self._recover()
        longest = SLICE_MS * sample_rate // 1000
        for start in range(0, len(samples), longest):
            if start:
                await asyncio.sleep(0)
            while self.hearing.congested:  # only a client that sends faster than real time comes to wait here
                self._answered.clear()
                await self._answered.wait()
            self._last_sound = self._clock()
            self._pass_on(self.hearing.push(samples[start : start + longest], sample_rate))

    def cut(self) -> list[Heard]:
        """End the turn under way here; the rest of its sound."""
        self._withdraw()
        return self.hearing.cut()

    def close(self) -> None:
        self._withdraw()

    def _pass_on(self, events: list[HearingEvent]) -> None:
        question = events.pop() if events and isinstance(events[-1], Question) else None
        self._heard(events)
        if isinstance(question, Question):
            self._ask(question)
        if self.hearing.engaged and "starvation" not in self._timers:
            self._timers.set("starvation", self._options.starvation_ms / 1000, self._check_starvation)

    # Judgements

    def _ask(self, question: Question) -> None:
        if self._judge is None:
            self._decide(question.number, None)
            return
        self._judgement = self._judge.ask(question.samples)
        self._judgement.add_done_callback(partial(self._judged, question.number))
        timeout = self._options.semantic_timeout_ms / 1000
        self._timers.set("judgement", timeout, partial(self._unjudged, question.number))

    def _judged(self, number: int, judgement: asyncio.Future[float]) -> None:
        if judgement.cancelled() or judgement is not self._judgement:
            return
        error = judgement.exception()
        if error is not None:
            _log.error("session %s: the end-of-turn model failed", self._id, exc_info=error)
            self._unjudged(number)
        else:
            self._decide(number, judgement.result() >= self._options.semantic_threshold)

    def _unjudged(self, number: int) -> None:
        self._counters.unjudged += 1
        self._decide(number, None)

    def _decide(self, number: int, complete: bool | None) -> None:
        self._withdraw()
        self._pass_on(self.hearing.decide(number, complete))

    def _withdraw(self) -> None:
        """Nobody waits for a judgement any more."""
        judgement, self._judgement = self._judgement, None
        if judgement is not None:
            judgement.cancel()
        self._timers.cancel("judgement")
        self._answered.set()

    # Sound that stops coming

    def _check_starvation(self) -> None:
        """It ends the turn: the silence that would do so never arrives."""
        if not self.hearing.engaged:
            return
        missing = self._last_sound + self._options.starvation_ms / 1000 - self._clock()
        if missing > 0:
            self._timers.set("starvation", missing, self._check_starvation)
            return
        self._stalled = True
        self._counters.stalls += 1
        _log.warning(
            "session %s: no sound for %d ms in the middle of a turn; it ends here",
            self._id,
            self._options.starvation_ms,
        )
        self._withdraw()
        self._pass_on(self.hearing.starve())

    def _recover(self) -> None:
        if self._stalled:
            self._stalled = False
            self._counters.recoveries += 1
            _log.info("session %s: sound again after %.1f s", self._id, self._clock() - self._last_sound)
