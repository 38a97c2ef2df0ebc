"""The person's sound at the two rates that listen to it, on one time axis."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler
from voice_omni.session.silero import RATE


class _Track:
    """The stream at one rate; sample ``n`` is the sound at ``n / rate`` seconds of the session."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.position = 0
        self._resampler: StreamResampler | None = None

    def push(self, samples: Samples, source_rate: int) -> Samples:
        if self._resampler is None:
            self._resampler = StreamResampler(source_rate, self.rate)
        return self._count(self._resampler.push(samples))

    def flush(self, elapsed: Fraction) -> Samples:
        """The rest of the sound up to ``elapsed`` seconds."""
        rest = np.zeros(0, np.float32) if self._resampler is None else self._resampler.flush()
        self._resampler = None
        due = -(-elapsed * self.rate // 1) - self.position
        return self._count(rest[: int(due)])

    def _count(self, samples: Samples) -> Samples:
        self.position += len(samples)
        return samples


class InputStream:
    """Resamples for voice activity (16 kHz) and for the model, and keeps the recent past for the pre-roll.

    Positions are samples at 16 kHz since the session's first sound, by count, never by a clock.
    """

    def __init__(self, model_rate: int) -> None:
        self._activity = _Track(RATE)
        self._model = self._activity if model_rate == RATE else _Track(model_rate)
        self._source_rate = 0
        self._elapsed = Fraction(0)
        self._history: Samples = np.zeros(0, np.float32)
        self._reach = 0
        self._taken = 0
        self._withholding = False

    @property
    def position(self) -> int:
        return self._activity.position

    @property
    def model_rate(self) -> int:
        return self._model.rate

    def keep(self, milliseconds: int) -> None:
        """How much of the past must be there for :meth:`take`, from now on."""
        self._reach = milliseconds * self._model.rate // 1000

    def withhold(self, withholding: bool) -> None:
        """Whether all that nobody has taken yet is kept, however far back it goes."""
        self._withholding = withholding

    def push(self, samples: Samples, source_rate: int) -> Samples:
        """float32 at ``source_rate`` Hz in; what it adds at 16 kHz out."""
        untaken = self._model.position - self._taken if self._withholding else 0
        self._history = self._history[max(0, len(self._history) - max(self._reach, untaken)) :]
        before = np.zeros(0, np.float32)
        if source_rate != self._source_rate:
            before = self.flush()
            self._source_rate = source_rate
        self._elapsed += Fraction(len(samples), source_rate)
        added = self._activity.push(samples, source_rate)
        self._remember(added if self._model is self._activity else self._model.push(samples, source_rate))
        return np.concatenate([before, added])

    def flush(self) -> Samples:
        """Let out what the resamplers hold back: the sound is cut here. Returns what that adds at 16 kHz."""
        added = self._activity.flush(self._elapsed)
        self._remember(added if self._model is self._activity else self._model.flush(self._elapsed))
        return added

    def take(self, start: int, end: int) -> Samples:
        """The model's sound from ``start`` to ``end``, without what an earlier call has taken or passed over."""
        oldest = self._model.position - len(self._history)
        first = max(self._model_index(start), self._taken, oldest)
        last = min(self._model_index(end), self._model.position)
        if last <= first:
            return np.zeros(0, np.float32)
        self._taken = last
        return self._history[first - oldest : last - oldest].copy()

    def earliest(self, start: int) -> int:
        """``start``, or the first position after it that an earlier turn has not taken."""
        return max(start, -(-self._taken * RATE // self._model.rate), 0)

    def pass_over(self, end: int) -> None:
        """What came before ``end`` belongs to nobody's next turn."""
        self._taken = max(self._taken, min(self._model_index(end), self._model.position))

    def _remember(self, samples: Samples) -> None:
        self._history = np.concatenate([self._history, samples])

    def _model_index(self, position: int) -> int:
        return position * self._model.rate // RATE
