"""Sounds that nobody spoke, float32 at 24 kHz."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from voice_omni.audio.pcm import Samples

RATE = 24000


def _clock(seconds: float) -> np.ndarray:
    return np.arange(int(seconds * RATE)) / RATE


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.float32)


def white_noise(seconds: float, level: float = 0.1) -> Samples:
    return (level * np.random.default_rng(1).standard_normal(int(seconds * RATE))).astype(np.float32)


def pink_noise(seconds: float, level: float = 0.1) -> Samples:
    """Noise whose power falls by 3 dB an octave, like a ventilator's."""
    spectrum = np.fft.rfft(np.random.default_rng(2).standard_normal(int(seconds * RATE)))
    spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1))
    sound = np.fft.irfft(spectrum, int(seconds * RATE))
    return (level * sound / np.abs(sound).max()).astype(np.float32)


def hum(seconds: float) -> Samples:
    clock = _clock(seconds)
    return sum(0.1 / n * np.sin(2 * np.pi * 50 * n * clock) for n in range(1, 8)).astype(np.float32)


def beeps(seconds: float) -> Samples:
    """A telephone's tone, on and off."""
    clock = _clock(seconds)
    tone = np.sin(2 * np.pi * 440 * clock) + np.sin(2 * np.pi * 480 * clock)
    return (0.2 * tone * (clock % 1.0 < 0.4)).astype(np.float32)


def chirp(seconds: float) -> Samples:
    clock = _clock(seconds)
    return (0.3 * np.sin(2 * np.pi * (100 + 3000 * clock / seconds / 2) * clock)).astype(np.float32)


def clicks(seconds: float) -> Samples:
    sound = silence(seconds)
    sound[:: RATE // 3] = 0.9
    return sound


def knocks(seconds: float) -> Samples:
    """Hands or doors: bursts of noise that die away in 30 ms, twice a second."""
    clock = _clock(seconds) % 0.5
    return (0.8 * white_noise(seconds, 1.0) * np.exp(-clock / 0.03)).clip(-1, 1).astype(np.float32)


def _note(hertz: float, clock: np.ndarray) -> np.ndarray:
    decay = np.exp(-3 * clock)
    return decay * sum(np.sin(2 * np.pi * hertz * n * clock) / n**1.5 for n in range(1, 9))


def melody(seconds: float) -> Samples:
    """Plucked strings: a tune, four notes a second."""
    steps = [0, 4, 7, 12, 7, 4, 5, 9, 12, 9, 5, 2]
    clock = _clock(0.25)
    notes = [_note(220 * 2 ** (steps[number % len(steps)] / 12), clock) for number in range(int(seconds * 4))]
    return (0.2 * np.concatenate(notes)).astype(np.float32)


def band(seconds: float) -> Samples:
    """Chords, a bass and a drum."""
    clock = _clock(1.0)
    chords = [[0, 4, 7], [5, 9, 12], [7, 11, 14], [0, 4, 7]]
    bars = []
    for number in range(int(seconds)):
        bar = sum(_note(196 * 2 ** (step / 12), clock) for step in chords[number % 4]) + 1.5 * _note(49, clock)
        bars.append(bar)
    return (0.1 * np.concatenate(bars)).astype(np.float32) + 0.2 * knocks(int(seconds))


NOT_SPEECH: dict[str, Callable[[float], Samples]] = {
    each.__name__: each for each in (silence, white_noise, pink_noise, hum, beeps, chirp, clicks, knocks, melody, band)
}
