"""Where speech ends in a recording of one speaker, by its level."""

from __future__ import annotations

import numpy as np

from voice_omni.audio.pcm import Samples

_WINDOW_S = 0.01
_BELOW_PEAK_DB = 35.0
_FLOOR_DBFS = -60.0


def speech_end(samples: Samples, rate: int) -> float | None:
    """Seconds from the start to the end of the last sound within 35 dB of the loudest; None for silence.

    ``samples``: float32 ``[samples]``, mono, at ``rate`` Hz. A measure for a quiet recording, not a detector for noise.
    """
    size = max(1, round(_WINDOW_S * rate))
    count = len(samples) // size
    if not count:
        return None
    power = np.mean(np.square(samples[: count * size].reshape(count, size), dtype=np.float64), axis=1)
    level = 10 * np.log10(np.maximum(power, 1e-12))
    loud = np.flatnonzero(level > max(level.max() - _BELOW_PEAK_DB, _FLOOR_DBFS))
    return (int(loud[-1]) + 1) * size / rate if len(loud) else None
