"""The starter voice on disk: one VITS voice of the Piper project, cut into its parts (see :mod:`.voice_graph`)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnxruntime
from numpy.typing import NDArray

from voice_omni.models.starter.weights import JOE_VOICE
from voice_omni.proto.errors import OmniError
from voice_omni.weights import derived, fetch

SAMPLE_RATE: Final = 22_050
FRAME_SAMPLES: Final = 256
LATENT_CHANNELS: Final = 192

_CUT_VERSION: Final = "1"
_BEGIN, _END, _PAD = "^", "$", "_"


@dataclass(frozen=True, slots=True)
class Voice:
    """``folder`` holds ``text.onnx``, ``flow.onnx`` and ``decoder.onnx``; ``symbols`` maps a phoneme's code point to
    its id. ``noise_scale`` and ``noise_w`` are the voice's own settings: how much its sound and its timing vary."""

    folder: Path
    symbols: Mapping[str, int]
    noise_scale: float
    noise_w: float

    def phoneme_ids(self, phonemes: str) -> list[int]:
        """One id per code point of the decomposed string.

        Raises :class:`OmniError` ``internal_error`` for a phoneme that the voice was not trained on.
        """
        decomposed = unicodedata.normalize("NFD", phonemes)
        unknown = sorted(set(decomposed) - self.symbols.keys())
        if unknown:
            raise OmniError("internal_error", f"the voice has no phonemes {unknown} (in {phonemes!r})")
        return [self.symbols[symbol] for symbol in decomposed]

    def sequence(self, ids: Iterable[int]) -> list[int]:
        """The ids as the text encoder takes them: begin, every id followed by a pad, end. Position ``i`` of ``ids``
        lies at ``2 + 2 * i``."""
        sequence = [self.symbols[_BEGIN], self.symbols[_PAD]]
        for phoneme in ids:
            sequence += (phoneme, self.symbols[_PAD])
        return [*sequence, self.symbols[_END]]


def open_voice() -> Voice:
    """The voice, fetched and cut if this is the first time. Raises what :func:`voice_omni.weights.fetch` raises."""
    source = fetch(JOE_VOICE)
    settings = json.loads((source / "en_US-joe-medium.onnx.json").read_text(encoding="utf-8"))
    folder = derived(JOE_VOICE, name="starter-voice", version=_CUT_VERSION, build=_cut)
    if settings["audio"]["sample_rate"] != SAMPLE_RATE:
        raise OmniError(
            "invalid_weights", f"the voice runs at {settings['audio']['sample_rate']} Hz, not {SAMPLE_RATE} Hz"
        )
    return Voice(
        folder=folder,
        symbols={symbol: ids[0] for symbol, ids in settings["phoneme_id_map"].items()},
        noise_scale=settings["inference"]["noise_scale"],
        noise_w=settings["inference"]["noise_w"],
    )


def _cut(folder: Path) -> None:
    # ``onnx`` is heavy and needed only this once.
    from voice_omni.models.starter.voice_graph import cut

    cut(fetch(JOE_VOICE) / "en_US-joe-medium.onnx", folder)


class Model:
    """A part of the voice on the CPU, whose run another thread may interrupt.

    Its threads sleep while there is nothing to do: several stages share the machine, and spinning would take the cores
    from whoever has work.
    """

    def __init__(self, path: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._current = onnxruntime.RunOptions()

    def run(self, outputs: list[str], inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Raises :class:`OmniError` ``aborted`` if it was interrupted."""
        options = self._current = onnxruntime.RunOptions()
        try:
            results: list[NDArray[Any]] = self._session.run(outputs, inputs, options)
        except Exception as error:
            if options.terminate:
                raise OmniError("aborted", "the computation was interrupted") from error
            raise
        return results

    def interrupt(self) -> None:
        """Let the run that is under way end at its next node; nothing if there is none."""
        self._current.terminate = True
