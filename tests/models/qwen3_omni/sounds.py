"""Sound to encode, and ways to cut it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from hypothesis import strategies as st


@lru_cache(maxsize=1)
def _long_voice() -> np.ndarray:
    """Twenty seconds of syllables that become louder, over noise, with pauses of digital silence between them."""
    random = np.random.default_rng(7)
    time = np.arange(20 * 16_000) / 16_000
    pitch = np.cumsum(140 + 40 * np.sin(time)) / 16_000
    syllables = np.clip(np.sin(2 * np.pi * 1.3 * time), 0, 1)
    sound = sum(np.sin(2 * np.pi * overtone * pitch) / overtone for overtone in range(1, 12))
    noisy = 0.05 * syllables * (0.02 + time / 4) * sound + 1e-4 * random.normal(size=len(time)) * (time % 3 < 2)
    return noisy.astype(np.float32)


def voice(samples: int, start: int = 0) -> np.ndarray:
    """float32 ``[samples]`` at 16 kHz."""
    return _long_voice()[start : start + samples]


def cut(sound: np.ndarray, data: st.DataObject, pieces: int = 6) -> list[np.ndarray]:
    """The sound in up to so many pieces, some perhaps empty."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sound)), max_size=pieces - 1)))
    return np.split(sound, cuts)
