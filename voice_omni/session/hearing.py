"""What a session hears: sound in, turns out. Synchronous, on audio time alone.

However the sound is cut into chunks, the same turns come out, with the same samples in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from voice_omni.audio.pcm import Samples
from voice_omni.realtime.settings import ServerVad
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.input_stream import InputStream
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import RATE
from voice_omni.session.turn_detection import Paused, Resumed, Started, Stopped, TurnDetector, TurnSettings, samples_of


@dataclass(frozen=True, slots=True)
class Heard:
    """Sound that belongs to the turn under way: float32 ``[samples]`` at the model's rate."""

    samples: Samples


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """Speech is certain at ``at``; the turn's sound begins at ``begin``. Both are samples at 16 kHz."""

    begin: int
    at: int


HearingEvent = Heard | TurnBegan | Paused | Resumed | Stopped
"""A turn begins, is ``Heard`` as it grows, and stops; without turn detection there is only ``Heard``."""


def turn_settings(vad: ServerVad, options: SessionOptions) -> TurnSettings:
    silence = samples_of(vad.silence_duration_ms)
    return TurnSettings(
        threshold=vad.threshold,
        release=max(vad.threshold - options.hysteresis, 0.01),
        min_speech=samples_of(options.min_speech_ms),
        min_resumption=samples_of(options.min_resumption_ms),
        short_pause=min(samples_of(options.short_pause_ms), silence),
        silence=silence,
        max_utterance=samples_of(options.max_utterance_ms),
    )


_SLACK_MS: Final = 500
"""Wavering can put an onset further before its confirmation than the minimum duration of speech."""


class Hearing:
    """One session's ear."""

    def __init__(
        self, activity: VoiceActivity, model_rate: int, vad: ServerVad | None, options: SessionOptions
    ) -> None:
        """``model_rate``: Hz, at which the model takes sound. ``vad`` None: turns are committed by hand."""
        self._activity = activity
        self._options = options
        self._stream = InputStream(model_rate)
        self._prefix = 0
        self._detector: TurnDetector | None = None
        self.configure(vad)

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

    def configure(self, vad: ServerVad | None) -> None:
        """New settings hold from the next window on; a turn under way goes on if there still is turn detection."""
        if vad is None:
            self._detector = None
            return
        self._prefix = samples_of(vad.prefix_padding_ms)
        self._stream.keep(vad.prefix_padding_ms + self._options.min_speech_ms + _SLACK_MS)
        settings = turn_settings(vad, self._options)
        if self._detector is None:
            self._detector = TurnDetector(settings)
            self._activity.reset(self._stream.position)
            self._stream.pass_over(self._stream.position)
        else:
            self._detector.settings = settings

    def push(self, samples: Samples, source_rate: int) -> list[HearingEvent]:
        """float32 ``[samples]`` at ``source_rate`` Hz, as the client sent them."""
        added = self._stream.push(samples, source_rate)
        if self._detector is None:
            return [*self._take(0, self._stream.position)]
        events: list[HearingEvent] = []
        for window in self._activity.windows(added):
            engaged = self._detector.engaged
            frame = self._activity.judge(window, engaged)
            event = self._detector.update(frame)
            if isinstance(event, Started):
                begin = self._stream.earliest(event.onset - self._prefix)
                events += [TurnBegan(begin, event.at), *self._take(begin, frame.end)]
                continue
            if engaged:
                events += self._take(0, frame.end)
            if event is not None:
                events.append(event)
        return events

    def starve(self) -> list[HearingEvent]:
        """No more sound comes. The turn under way, if there is one, ends with what has arrived."""
        stopped = self._detector.starve(self._stream.position) if self._detector is not None else None
        return [*self._take(0, self._stream.position), stopped] if stopped is not None else []

    def cut(self) -> list[Heard]:
        """End here, by the client's word: the rest of the turn's sound; what comes next is another turn's."""
        keep = self.engaged or not self.detecting
        self._stream.flush()
        end = self._stream.position
        rest = self._take(0, end) if keep else []
        self._stream.pass_over(end)
        self._activity.reset(end)
        if self._detector is not None:
            self._detector.reset()
        return rest

    def _take(self, start: int, end: int) -> list[Heard]:
        samples = self._stream.take(start, end)
        return [Heard(samples)] if len(samples) else []
