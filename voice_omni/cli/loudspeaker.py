"""Plays the answer on the default sound device."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Any

from voice_omni.audio.pcm import Samples
from voice_omni.cli.realtime_client import RATE
from voice_omni.cli.sound_input import FRAME, sound_library
from voice_omni.proto.errors import OmniError


class SoundQueue:
    """Sound that waits to be played, filled from one thread and emptied from another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Samples] = deque()

    def put(self, samples: Samples) -> None:
        with self._lock:
            self._pieces.append(samples)

    def clear(self) -> None:
        with self._lock:
            self._pieces.clear()

    def fill(self, out: Samples) -> None:
        """Move the next samples into ``out``; silence where there are none."""
        filled = 0
        with self._lock:
            while self._pieces and filled < len(out):
                piece = self._pieces.popleft()
                taken = piece[: len(out) - filled]
                out[filled : filled + len(taken)] = taken
                filled += len(taken)
                if len(taken) < len(piece):
                    self._pieces.appendleft(piece[len(taken) :])
        out[filled:] = 0


class Loudspeaker:
    """The default sound device, which empties a queue at its own pace.

    Raises :class:`OmniError` ``no_sound_device``.
    """

    def __init__(self) -> None:
        library = sound_library()
        self._queue = SoundQueue()
        try:
            self._stream = library.OutputStream(RATE, FRAME, channels=1, dtype="float32", callback=self._fill)
        except library.PortAudioError as error:
            raise OmniError("no_sound_device", f"cannot open a loudspeaker: {error}") from error

    def play(self, samples: Samples) -> None:
        self._queue.put(samples)

    def clear(self) -> None:
        """Fall silent at once."""
        self._queue.clear()

    def __enter__(self) -> Loudspeaker:
        self._stream.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def _fill(self, out: Any, _count: int, _time: Any, _status: Any) -> None:
        """On the sound library's own thread."""
        self._queue.fill(out[:, 0])
