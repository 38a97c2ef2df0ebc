"""Voice activity: a cheap gate that keeps silence away from the judge, and the judge."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import webrtcvad

from voice_omni.audio.pcm import Samples
from voice_omni.session.silero import RATE, WINDOW, SileroModel, SileroStream

_GATE_FRAME: Final = 160
_GATE_MODE: Final = 2
_GATE_HANGOVER: Final = RATE * 3 // 10
"""The gate stays open this many samples after its last sign of sound."""
_WARM_UP: Final = 4
"""Windows before the gate opened that the judge hears first, so that it judges with some past."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A judged window: it ends ``end`` samples (16 kHz) after the session's first."""

    end: int
    probability: float

    @property
    def start(self) -> int:
        return self.end - WINDOW


class Gate(Protocol):
    def hears(self, window: Samples) -> bool:
        """Whether anything in the window (float32 ``[512]`` at 16 kHz) could be a voice."""
        ...


class WebRtcGate:
    """WebRTC's voice activity detector (2 us a frame): it takes any broadband noise for a voice, but not silence."""

    def __init__(self) -> None:
        self._vad = webrtcvad.Vad(_GATE_MODE)
        self._rest = b""

    def hears(self, window: Samples) -> bool:
        data = self._rest + (np.clip(window, -1, 1) * np.float32(32767)).astype("<i2").tobytes()
        width = 2 * _GATE_FRAME
        whole = len(data) - len(data) % width
        self._rest = data[whole:]
        frames = [data[start : start + width] for start in range(0, whole, width)]
        verdicts = [self._vad.is_speech(frame, RATE) for frame in frames]  # each frame adapts it: ask them all
        return any(verdicts)


class VoiceActivity:
    """Judges a stream of 16 kHz sound window by window, on audio time alone.

    While the gate is shut and nobody speaks, windows count as silence and the judge sleeps.
    """

    def __init__(self, model: SileroModel, gate: Callable[[], Gate] = WebRtcGate) -> None:
        self._judge = SileroStream(model)
        self._make_gate = gate
        self._position = 0
        self.reset(0)

    def reset(self, position: int) -> None:
        """Forget the stream so far; the next sample is number ``position``."""
        self._gate = self._make_gate()
        self._open_until = 0
        self._asleep = True
        self._past: deque[Samples] = deque(maxlen=_WARM_UP)
        self._rest: Samples = np.zeros(0, np.float32)
        self._position = position

    def windows(self, samples: Samples) -> list[Samples]:
        """The whole windows that ``samples`` (float32, any number) complete."""
        joined = np.concatenate([self._rest, samples])
        whole = len(joined) - len(joined) % WINDOW
        self._rest = joined[whole:]
        return [joined[start : start + WINDOW] for start in range(0, whole, WINDOW)]

    def judge(self, window: Samples, engaged: bool) -> Frame:
        """The next window's probability; ``engaged``: someone is speaking, so every window counts."""
        self._position += WINDOW
        if self._gate.hears(window):
            self._open_until = self._position + _GATE_HANGOVER
        if not engaged and self._position > self._open_until:
            self._asleep = True
            self._past.append(window)
            return Frame(self._position, 0.0)
        if self._asleep:
            self._asleep = False
            self._judge.reset()
            for earlier in self._past:
                self._judge.probability(earlier)
            self._past.clear()
        return Frame(self._position, self._judge.probability(window))
