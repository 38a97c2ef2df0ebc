"""Silero VAD v6 (github.com/snakers4/silero-vad, MIT): how probably a 32 ms window of 16 kHz sound is speech."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from voice_omni.audio.pcm import Samples

RATE: Final = 16000
WINDOW: Final = 512
"""Samples that the model takes at a time, no more and no fewer."""
_CONTEXT: Final = 64
"""Samples of the window before that are put in front of each window."""


class SileroModel:
    """The loaded network, shared by all sessions; what it remembers of a stream is kept by :class:`SileroStream`."""

    def __init__(self, path: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1  # a window takes a fraction of a millisecond: a second thread only costs
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, window: Samples, state: Samples) -> tuple[float, Samples]:
        """``window``: float32 ``[1, 576]``, ``state``: ``[2, 1, 128]``; the probability and the next state."""
        feed = {"input": window, "state": state, "sr": np.array(RATE, np.int64)}
        probability, following = self._session.run(None, feed)
        return float(probability[0, 0]), following


class SileroStream:
    """One stream of sound through the model."""

    def __init__(self, model: SileroModel) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        self._state: NDArray[np.float32] = np.zeros((2, 1, 128), np.float32)
        self._context: Samples = np.zeros(_CONTEXT, np.float32)

    def probability(self, window: Samples) -> float:
        """``window``: float32 ``[512]``, the next in the stream."""
        joined = np.concatenate([self._context, window])
        probability, self._state = self._model.run(joined[None, :], self._state)
        self._context = joined[-_CONTEXT:]
        return probability
