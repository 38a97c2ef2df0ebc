"""Silence after an answer that makes the server speak again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from voice_omni.realtime.core import RealtimeCore
from voice_omni.realtime.settings import ServerVad
from voice_omni.session.options import SessionOptions
from voice_omni.session.speaker import Speaker
from voice_omni.session.timers import Timers

_TIMER: Final = "idle"


class IdleTimeout:
    """Counts from the end of an answer's playback, as ``idle_timeout_ms`` says.

    ``act`` is called with the timeout that has passed; only so often in a row without a turn of the person.
    """

    def __init__(
        self,
        core: RealtimeCore,
        speaker: Speaker,
        timers: Timers,
        options: SessionOptions,
        quiet: Callable[[], bool],
        act: Callable[[int], None],
    ) -> None:
        """``quiet``: whether nobody is speaking or being understood."""
        self._core = core
        self._speaker = speaker
        self._timers = timers
        self._most = options.max_idle_responses
        self._quiet = quiet
        self._act = act
        self._count = 0
        self._after_answer = False
        self._counted_ms: int | None = None  # the setting that holds for the timer

    def answered(self) -> None:
        """An answer is over, but for what is still being played."""
        self._after_answer = True
        self.resume()

    def resume(self) -> None:
        """Count again, if an answer was the last thing said and nobody speaks or is about to."""
        timeout_ms = self._counted_ms = self._timeout_ms
        due = self._after_answer and self._count < self._most and self._core.responses.active is None
        if timeout_ms is not None and due and self._quiet():
            delay = self._speaker.remaining + timeout_ms / 1000
            self._timers.set(_TIMER, delay, lambda: self._fire(timeout_ms))

    def reconsider(self) -> None:
        """Settings may have changed: what was counted by others is counted anew, or no more."""
        if self._timeout_ms != self._counted_ms:
            self.pause()
            self.resume()

    @property
    def _timeout_ms(self) -> int | None:
        vad = self._core.session.audio.input.turn_detection
        return vad.idle_timeout_ms if isinstance(vad, ServerVad) else None

    def pause(self) -> None:
        """Somebody seems to speak, or an answer begins."""
        self._timers.cancel(_TIMER)

    def turn(self) -> None:
        """A person has said something."""
        self._count = 0
        self._after_answer = False
        self.pause()

    def _fire(self, timeout_ms: int) -> None:
        self._count += 1
        self._act(timeout_ms)
