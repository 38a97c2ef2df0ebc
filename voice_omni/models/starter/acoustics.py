"""From phonemes to latent frames: the text encoder, the duration predictor and the flow of VITS, with seeded noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_omni.models.starter.voice import LATENT_CHANNELS, Model, Voice

_LONGEST_LEAD: Final = 2
"""Frames of silence before the first sound at most: before some words the voice would wait for almost half a second."""

Latents = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a clause is spoken. ``speed`` 1.0 is the voice's own pace, 2.0 twice as fast."""

    speed: float
    noise_scale: float
    noise_w: float
    seed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Utterance:
    """``latents``: float32 ``[frames, 192]``. ``starts[i]``: the frame at which phoneme ``i`` begins."""

    latents: Latents
    starts: NDArray[np.int64]


class Acoustics:
    """The two models and the arithmetic between them (VITS, sections 2.2 and 2.3: https://arxiv.org/abs/2106.06103)."""

    def __init__(self, voice: Voice, threads: int) -> None:
        self._voice = voice
        self._text = Model(voice.folder / "text.onnx", threads)
        self._flow = Model(voice.folder / "flow.onnx", threads)

    def interrupt(self) -> None:
        """Called on another thread: let :meth:`speak` raise :class:`OmniError` ``aborted``, if it computes."""
        self._text.interrupt()
        self._flow.interrupt()

    def speak(self, phonemes: Sequence[int], delivery: Delivery) -> Utterance:
        """Phoneme ids (without begin, pads and end) to latent frames. The same arguments give the same frames."""
        noise = np.random.default_rng(delivery.seed)
        ids = np.array([self._voice.sequence(phonemes)], dtype=np.int64)
        length = ids.shape[1]
        timing = noise.standard_normal((1, 2, length), dtype=np.float32) * np.float32(delivery.noise_w)
        durations, mean, log_scale = self._text.run(
            ["durations", "mean", "log_scale"],
            {"ids": ids, "lengths": np.array([length], dtype=np.int64), "duration_noise": timing},
        )
        frames = np.maximum(np.ceil(durations[0, 0] / delivery.speed), 1).astype(np.int64)
        frames[0] = min(frames[0], _LONGEST_LEAD)
        variation = noise.standard_normal((1, LATENT_CHANNELS, int(frames.sum())), dtype=np.float32)
        prior = np.repeat(mean, frames, axis=2) + variation * np.exp(np.repeat(log_scale, frames, axis=2)) * np.float32(
            delivery.noise_scale
        )
        (latents,) = self._flow.run(
            ["latents"], {"prior": prior, "mask": np.ones((1, 1, prior.shape[2]), dtype=np.float32)}
        )
        starts = np.concatenate(([0], np.cumsum(frames)))
        return Utterance(np.ascontiguousarray(latents[0].T), starts[2 : 2 + 2 * len(phonemes) : 2])
