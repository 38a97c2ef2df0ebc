"""When a turn begins, pauses, goes on and ends. Pure: judged windows in, decisions out, audio time only.

Starting and stopping are strategies of their own, so that either can be replaced without the other noticing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from voice_omni.session.activity import Frame
from voice_omni.session.silero import RATE


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """Thresholds are probabilities; everything else counts samples at 16 kHz.

    ``lag``: how long before its probability falls below ``release`` a voice has really ended.
    """

    threshold: float
    release: float
    lag: int
    min_speech: int
    min_resumption: int
    short_pause: int
    silence: int
    max_utterance: int


def samples_of(milliseconds: int) -> int:
    """Samples at 16 kHz."""
    return milliseconds * RATE // 1000


@dataclass(frozen=True, slots=True)
class Started:
    """Speech is certain at ``at``; its first window began at ``onset``."""

    onset: int
    at: int


@dataclass(frozen=True, slots=True)
class Paused:
    """A silence began at ``quiet_from`` that is long enough to get an answer ready, not to end the turn."""

    quiet_from: int
    at: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The person went on after :class:`Paused`."""

    at: int


@dataclass(frozen=True, slots=True)
class Undecided:
    """In the silence since ``quiet_from`` somebody has to judge whether the person has finished: see ``decide``."""

    quiet_from: int
    at: int


StopCause = Literal["silence", "complete", "max_utterance", "starved"]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The turn is over; speech ended at ``quiet_from``."""

    quiet_from: int
    at: int
    cause: StopCause


TurnEvent = Started | Paused | Resumed | Undecided | Stopped


class StartStrategy(Protocol):
    def update(self, frame: Frame, settings: TurnSettings) -> int | None:
        """Where speech began, in the frame in which it becomes certain."""
        ...

    def reset(self) -> None: ...


class StopDecision(Enum):
    GO_ON = "go_on"
    PAUSE = "pause"
    RESUME = "resume"
    ASK = "ask"
    STOP = "stop"


class StopStrategy(Protocol):
    quiet_from: int | None
    """Where the silence at the end of what was heard began; None while there is speech."""
    voice_from: int | None
    """Where in that silence a voice began that has not lasted long enough to count; None while it is quiet."""

    def update(self, frame: Frame, settings: TurnSettings) -> StopDecision: ...

    def decide(self, complete: bool | None) -> bool:
        """The answer to ``ASK``, None when there is none; whether the turn ends where it was asked."""
        ...

    def reset(self) -> None: ...


class SustainedVoice:
    """Speech begins when its probability has stayed up for the minimum duration."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._onset: int | None = None

    def update(self, frame: Frame, settings: TurnSettings) -> int | None:
        if frame.probability >= settings.threshold:
            if self._onset is None:
                self._onset = frame.start
        elif frame.probability < settings.release:
            self._onset = None
        if self._onset is not None and frame.end - self._onset >= settings.min_speech:
            return self._onset
        return None


class Silence:
    """A turn ends when silence has lasted; a noise in the silence that is too short for speech does not count."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.quiet_from: int | None = None
        self.voice_from: int | None = None
        self._paused = False

    def update(self, frame: Frame, settings: TurnSettings) -> StopDecision:
        if self.quiet_from is None:
            if frame.probability < settings.release:
                self.quiet_from, self.voice_from = frame.start - settings.lag, None
        elif frame.probability < settings.threshold:
            self.voice_from = None
        else:
            self.voice_from = frame.start if self.voice_from is None else self.voice_from
            if frame.end - self.voice_from >= settings.min_resumption:
                was_paused = self._paused
                self.reset()
                return StopDecision.RESUME if was_paused else StopDecision.GO_ON
        if self.quiet_from is None or self.voice_from is not None:
            return StopDecision.GO_ON
        silence = frame.end - self.quiet_from
        if silence >= self._enough(settings):
            return StopDecision.STOP
        if silence >= settings.short_pause and not self._paused:
            self._paused = True
            return StopDecision.PAUSE
        return StopDecision.GO_ON

    def decide(self, complete: bool | None) -> bool:
        return False

    def _enough(self, settings: TurnSettings) -> int:
        """The silence that ends the turn."""
        return settings.silence


@dataclass(frozen=True, slots=True)
class SemanticSettings:
    """Samples at 16 kHz. After ``ask_after`` of silence, and every ``ask_again`` after that, the turn is judged."""

    ask_after: int
    ask_again: int
    max_wait: int


class JudgedSilence(Silence):
    """A short silence ends a turn that sounds complete; one that does not is waited for, but not for ever.

    Without an answer, silence decides alone, as in :class:`Silence`.
    """

    def __init__(self, semantic: SemanticSettings) -> None:
        self.semantic = semantic
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._asked = 0
        self._judged = True

    def update(self, frame: Frame, settings: TurnSettings) -> StopDecision:
        decision = super().update(frame, settings)
        if decision is not StopDecision.GO_ON or self.quiet_from is None or self.voice_from is not None:
            return decision
        due = self.semantic.ask_after + self._asked * self.semantic.ask_again
        if self._judged and frame.end - self.quiet_from >= due:
            self._asked += 1
            return StopDecision.ASK
        return StopDecision.GO_ON

    def decide(self, complete: bool | None) -> bool:
        self._judged = complete is not None
        return complete is True

    def _enough(self, settings: TurnSettings) -> int:
        return self.semantic.max_wait if self._judged else settings.silence


class TurnDetector:
    """Follows one session's turns."""

    def __init__(
        self, settings: TurnSettings, start: StartStrategy | None = None, stop: StopStrategy | None = None
    ) -> None:
        self.settings = settings
        self.stop: StopStrategy = stop or Silence()
        self._start = start or SustainedVoice()
        self._onset: int | None = None
        self._paused = False

    @property
    def engaged(self) -> bool:
        """Whether someone is speaking or may go on."""
        return self._onset is not None

    @property
    def paused(self) -> bool:
        """Whether :class:`Paused` has been told of the turn under way, and nothing after it."""
        return self._paused

    def judge_by(self, stop: StopStrategy) -> None:
        """End turns in another way from now on. It knows of no silence yet, so a turn that has paused goes on."""
        self.stop = stop
        self._paused = False

    def voiced(self, at: int) -> int:
        """How long the speech of the turn under way has lasted by ``at``, without the silence at its end."""
        end = at if self.stop.quiet_from is None else self.stop.quiet_from
        return 0 if self._onset is None else max(0, end - self._onset)

    def reset(self) -> None:
        self._onset = None
        self._paused = False
        self._start.reset()
        self.stop.reset()

    def update(self, frame: Frame) -> TurnEvent | None:
        if self._onset is None:
            onset = self._start.update(frame, self.settings)
            if onset is None:
                return None
            self._onset = onset
            self._start.reset()
            return Started(onset, frame.end)
        decision = self.stop.update(frame, self.settings)
        if decision is StopDecision.STOP:
            return self._ended(frame.end, "silence")
        if frame.end - self._onset >= self.settings.max_utterance:
            return self._ended(frame.end, "max_utterance")
        if decision is StopDecision.RESUME:
            self._paused = False
            return Resumed(frame.end)
        if decision is StopDecision.GO_ON or self.stop.quiet_from is None:
            return None
        if decision is StopDecision.PAUSE:
            self._paused = True
            return Paused(self.stop.quiet_from, frame.end)
        return Undecided(self.stop.quiet_from, frame.end)

    def decide(self, at: int, complete: bool | None) -> Stopped | None:
        """The judgement on :class:`Undecided`, asked for at ``at``; None: nobody could tell."""
        return self._ended(at, "complete") if self.stop.decide(complete) else None

    def starve(self, at: int) -> Stopped | None:
        """No more sound comes: end the turn that is under way, if one is."""
        return self._ended(at, "starved") if self._onset is not None else None

    def _ended(self, at: int, cause: StopCause) -> Stopped:
        quiet_from = at if self.stop.quiet_from is None else self.stop.quiet_from
        self.reset()
        return Stopped(quiet_from, at, cause)
