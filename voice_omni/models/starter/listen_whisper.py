"""Whisper tiny.en on CTranslate2, greedy, with a short context and a distrust of what is not speech."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

from voice_omni.models.starter.listen_mel import FRAMES_PER_SECOND, HOP, MAX_FRAMES, Floats, log_mel

_TOKENS_PER_SECOND: Final = 8
_SPARE_TOKENS: Final = 8
_RUNAWAY_COMPRESSION: Final = 2.0
_UNSURE_LOGPROB: Final = -0.5


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What one decoding gave. ``runaway``: it repeats itself, or was stopped at the bound on its length."""

    text: str
    no_speech: float
    mean_logprob: float
    runaway: bool


class Recogniser:
    """Turns stretches of sound into text, each by itself: what is recognised together changes nothing.

    The model was trained on thirty seconds, and its encoder takes as long for two words as for thirty seconds of them.
    A shorter context is several times faster; with less than about six seconds of silence after the words the decoder
    often does not find their end and says them again (``padding`` frames, 10 ms each). Where that still happens, the
    whole thirty seconds are used.

    ``no_speech``: from which probability of the model's no-speech token on its words are not believed.
    """

    def __init__(self, folder: Path, *, threads: int, padding: int, no_speech: float) -> None:
        self._model: Any = ctranslate2.models.Whisper(
            str(folder), compute_type="int8", inter_threads=threads, intra_threads=1, max_queued_batches=-1
        )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._prompt = [self._tokenizer.token_to_id(word) for word in ("<|startoftranscript|>", "<|notimestamps|>")]
        self._padding = padding
        self._no_speech = no_speech
        # A worker's first call takes longer than the others: so many sounds at once that each worker gets one.
        self._decode([np.zeros(HOP * FRAMES_PER_SECOND, np.float32)] * threads, padding)

    def recognise(self, sounds: Sequence[Floats]) -> list[str]:
        """The words in each sound (float32 ``[n]``, 16 kHz, up to 30 s); empty where there are none."""
        first = self._decode(sounds, self._padding)
        doubtful = [i for i, hypothesis in enumerate(first) if hypothesis.runaway and not self._is_noise(hypothesis)]
        second = dict(zip(doubtful, self._decode([sounds[i] for i in doubtful], MAX_FRAMES), strict=True))
        return [self._believed(second.get(i, hypothesis)) for i, hypothesis in enumerate(first)]

    def _believed(self, hypothesis: Hypothesis) -> str:
        text = hypothesis.text.strip()
        if hypothesis.runaway or self._is_noise(hypothesis) or not any(character.isalnum() for character in text):
            return ""
        return text

    def _is_noise(self, hypothesis: Hypothesis) -> bool:
        unsure = hypothesis.runaway or hypothesis.mean_logprob < _UNSURE_LOGPROB
        return unsure and hypothesis.no_speech > self._no_speech

    def _decode(self, sounds: Sequence[Floats], padding: int) -> list[Hypothesis]:
        running = [(self._start(sound, padding), _token_bound(sound)) for sound in sounds]
        return [self._hypothesis(call.result(), bound) for call, bound in running]

    def _start(self, sound: Floats, padding: int) -> Any:
        features = log_mel(sound, min(padding, MAX_FRAMES - len(sound) // HOP))
        (call,) = self._model.generate(
            ctranslate2.StorageView.from_array(np.ascontiguousarray(features[None])),
            [self._prompt],
            asynchronous=True,
            beam_size=1,
            # The library decodes at most half of what it is given here.
            max_length=2 * _token_bound(sound),
            return_scores=True,
            return_no_speech_prob=True,
        )
        return call

    def _hypothesis(self, result: Any, bound: int) -> Hypothesis:
        tokens = result.sequences_ids[0]
        text = self._tokenizer.decode(tokens)
        raw = text.encode()
        repeats = len(raw) > _RUNAWAY_COMPRESSION * len(zlib.compress(raw))
        return Hypothesis(text, result.no_speech_prob, result.scores[0], repeats or len(tokens) >= bound)


def _token_bound(sound: Floats) -> int:
    """More tokens than anybody says in that time."""
    return _SPARE_TOKENS + _TOKENS_PER_SECOND * len(sound) // (HOP * FRAMES_PER_SECOND)
