"""What a session hears: sound in, turns out. Synchronous, on audio time alone.

However the sound is cut into chunks, the same turns come out, with the same samples in them.

A turn is given its sound up to its pause, because the answer to it is begun there. What follows is withheld until it is
known whose it is: the turn's if the person goes on, else the silence in which the turn ends, and the next turn's
pre-roll may reach back into that. So a voice that begins while the turn ends is heard from its first sample.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from voice_omni.audio.pcm import Samples
from voice_omni.realtime.settings import SemanticVad, ServerVad, TurnDetection
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.input_stream import InputStream
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import RATE, WINDOW
from voice_omni.session.smart_turn import SPAN
from voice_omni.session.turn_detection import (
    JudgedSilence,
    Paused,
    Resumed,
    SemanticSettings,
    Silence,
    Started,
    Stopped,
    StopStrategy,
    TurnDetector,
    TurnSettings,
    Undecided,
    samples_of,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """Sound that belongs to the turn under way: float32 ``[samples]`` at the model's rate.

    ``voiced_ms``: how long the turn's speech has lasted by now, without the silence at its end.
    """

    samples: Samples
    voiced_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """Speech is certain at ``at``; the turn's sound begins at ``begin``. Both are samples at 16 kHz."""

    begin: int
    at: int


@dataclass(frozen=True, slots=True)
class Question:
    """Does the turn sound complete? ``samples``: float32 ``[n]`` at 16 kHz, its last 8 s with the pause.

    What comes after is not listened to before :meth:`Hearing.decide` has been told, so that the answer means the same
    however long it takes.
    """

    number: int
    samples: Samples


HearingEvent = Heard | TurnBegan | Paused | Resumed | Question | Stopped
"""A turn begins, is ``Heard`` as it grows, and stops; without turn detection there is only ``Heard``.

``Heard`` after ``Paused`` says that the turn goes on, as ``Resumed`` does before it.
"""

_MAX_WAIT_MS: Final = {"low": 8000, "medium": 4000, "high": 2000, "auto": 4000}
"""The contract's: how long each eagerness waits for somebody who seems not to have finished."""


def turn_settings(vad: TurnDetection, options: SessionOptions) -> TurnSettings:
    """With ``semantic_vad``, a client sets neither threshold nor silence: the operator's hold."""
    server = vad if isinstance(vad, ServerVad) else None
    threshold = server.threshold if server is not None else options.threshold
    silence = samples_of(server.silence_duration_ms if server is not None else options.silence_duration_ms)
    return TurnSettings(
        threshold=threshold,
        release=max(threshold - options.hysteresis, 0.01),
        lag=samples_of(options.release_lag_ms),
        min_speech=samples_of(options.min_speech_ms),
        min_resumption=samples_of(options.min_resumption_ms),
        short_pause=min(samples_of(options.short_pause_ms), silence),
        silence=silence,
        max_utterance=samples_of(options.max_utterance_ms),
    )


def stop_strategy(vad: TurnDetection, options: SessionOptions) -> StopStrategy:
    if isinstance(vad, ServerVad):
        return Silence()
    return JudgedSilence(
        SemanticSettings(
            ask_after=samples_of(options.semantic_pause_ms),
            ask_again=samples_of(options.semantic_again_ms),
            max_wait=samples_of(_MAX_WAIT_MS[vad.eagerness]),
        )
    )


def _eagerness(vad: TurnDetection | None) -> str | None:
    return vad.eagerness if isinstance(vad, SemanticVad) else None


SLICE_MS: Final = 200
"""The longest piece of sound to push at once."""
_MAX_HELD_MS: Final = 2 * SLICE_MS
"""Sound that can wait for the answer to a question and is still kept whole."""
_SLACK_MS: Final = 500
"""Wavering can put an onset further before its confirmation than the minimum duration of speech."""


class Hearing:
    """One session's ear."""

    def __init__(
        self, activity: VoiceActivity, model_rate: int, vad: TurnDetection | None, options: SessionOptions
    ) -> None:
        """``model_rate``: Hz, at which the model takes sound. ``vad`` None: turns are committed by hand."""
        self._activity = activity
        self._options = options
        self._stream = InputStream(model_rate)
        self._prefix = 0
        self._detector: TurnDetector | None = None
        self._vad: TurnDetection | None = None
        self._held: deque[Samples] = deque()
        self._recent: deque[Samples] = deque(maxlen=SPAN // WINDOW)
        self._judged = 0  # where the last window that was listened to ends
        self._begin = 0
        self._number = 0
        self._asked: int | None = None
        self.configure(vad)

    @property
    def position(self) -> int:
        """Samples at 16 kHz that have come out of the session's sound so far."""
        return self._stream.position

    @property
    def position_ms(self) -> int:
        return self._stream.position * 1000 // RATE

    @property
    def model_rate(self) -> int:
        """Hz."""
        return self._stream.model_rate

    @property
    def detecting(self) -> bool:
        return self._detector is not None

    @property
    def engaged(self) -> bool:
        """Whether a turn is under way."""
        return self._detector is not None and self._detector.engaged

    @property
    def congested(self) -> bool:
        """Whether a question is open and no more sound can wait for its answer."""
        return self._asked is not None and len(self._held) >= samples_of(SLICE_MS) // WINDOW

    def configure(self, vad: TurnDetection | None) -> None:
        """New settings hold from the next window on; a turn under way goes on if there still is turn detection."""
        before, self._vad = self._vad, vad
        if vad is None:
            self._detector = None
            self._held.clear()
            self._asked = None
            return
        prefix_ms = vad.prefix_padding_ms if isinstance(vad, ServerVad) else self._options.prefix_padding_ms
        self._prefix = samples_of(prefix_ms)
        self._stream.keep(prefix_ms + self._options.min_speech_ms + _SLACK_MS + _MAX_HELD_MS)
        settings = turn_settings(vad, self._options)
        if self._detector is None:
            self._detector = TurnDetector(settings, stop=stop_strategy(vad, self._options))
            self._activity.reset(self._stream.position)
            self._stream.pass_over(self._stream.position)
        else:
            self._detector.settings = settings
            if _eagerness(vad) != _eagerness(before):
                self._detector.judge_by(stop_strategy(vad, self._options))
                self._asked = None

    def push(self, samples: Samples, source_rate: int) -> list[HearingEvent]:
        """float32 ``[samples]`` at ``source_rate`` Hz, as the client sent them.

        While the ear is ``congested``, nothing may be pushed.
        """
        added = self._stream.push(samples, source_rate)
        if self._detector is None:
            return [*self._take(0, self._stream.position)]
        self._held.extend(self._activity.windows(added))
        return self._listen(self._detector)

    def decide(self, number: int, complete: bool | None) -> list[HearingEvent]:
        """The answer to the :class:`Question` with this number, None if nobody could tell; a stale one is nothing."""
        if self._detector is None or number != self._asked:
            return []
        self._asked = None
        stopped = self._detector.decide(self._judged, complete)
        return [*([stopped] if stopped is not None else []), *self._listen(self._detector)]

    def _listen(self, detector: TurnDetector) -> list[HearingEvent]:
        events: list[HearingEvent] = []
        while self._held and self._asked is None:
            window = self._held.popleft()
            engaged = detector.engaged
            frame = self._activity.judge(window, engaged)
            self._judged = frame.end
            self._recent.append(window)
            event = detector.update(frame)
            match event:
                case Started(onset, at):
                    self._begin = self._stream.earliest(onset - self._prefix)
                    events += [TurnBegan(self._begin, at), *self._take(self._begin, at)]
                case Resumed(at):
                    events += [event, *self._take(0, at)]
                case Paused(_, at):
                    events += [*self._take(0, at), event]
                case Stopped(quiet_from, at):
                    events += [*([] if quiet_from < at else self._take(0, at)), event]
                case Undecided(_, at):
                    events += [*([] if detector.paused else self._take(0, at)), self._ask(at)]
                case None if engaged and not detector.paused:
                    events += self._take(0, frame.end)
            self._stream.withhold(detector.paused)
        return events

    def _ask(self, at: int) -> Question:
        self._number += 1
        self._asked = self._number
        return Question(self._number, np.concatenate(self._recent)[-(at - self._begin) :])

    def starve(self) -> list[HearingEvent]:
        """No more sound comes. The turn under way, if there is one, ends with what has arrived."""
        events = self.decide(self._asked, None) if self._asked is not None else []
        rest = self._rest()
        stopped = self._detector.starve(self._stream.position) if self._detector is not None else None
        return [*events, *rest, stopped] if stopped is not None else events

    def cut(self) -> list[Heard]:
        """End here, by the client's word: the rest of the turn's sound; what comes next is another turn's."""
        self._stream.flush()
        end = self._stream.position
        rest = self._rest()
        self._stream.pass_over(end)
        self._activity.reset(end)
        self._held.clear()
        self._asked = None
        if self._detector is not None:
            self._detector.reset()
        return rest

    def _rest(self) -> list[Heard]:
        """What the turn under way would still be given if it ended here: not the silence after its pause."""
        detector = self._detector
        if detector is not None and (not detector.engaged or (detector.paused and detector.stop.voice_from is None)):
            return []
        return self._take(0, self._stream.position)

    def _take(self, start: int, end: int) -> list[Heard]:
        samples = self._stream.take(start, end)
        voiced = self._detector.voiced(self._judged) * 1000 / RATE if self._detector is not None else 0.0
        return [Heard(samples, voiced)] if len(samples) else []
