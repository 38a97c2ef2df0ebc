"""Text to latent frames, clause by clause while the text is still being written.

Stream input: ``{"text": str}``, the text in any pieces. On a route without a stream into this stage the whole text is
in ``inputs["text"]``.

Stream output, for each clause one or more chunks: ``latents`` float32 ``[frames, 192]`` (at most :data:`PIECE_FRAMES`
frames of 256 samples at 22 050 Hz); ``end``: whether the clause ends with this chunk; ``pause``: silence after it, in
samples, set on the last chunk; ``marks``: ``[frame offset in this chunk, text]``, the text whose speech begins there.
The marks' texts, joined over the stream, are the text that came in. Result: ``{"text": str}``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from voice_omni.model_runner.interface import Chunk, Emit, Outcome, Work
from voice_omni.models.starter.acoustics import Acoustics, Delivery, Latents
from voice_omni.models.starter.options import TalkerOptions
from voice_omni.models.starter.spoken_text.clauses import Break, Clause, ClauseSplitter
from voice_omni.models.starter.spoken_text.pronunciation import Pronouncer
from voice_omni.models.starter.spoken_text.script import write_script
from voice_omni.models.starter.voice import FRAME_SAMPLES, LATENT_CHANNELS, SAMPLE_RATE, Voice, open_voice
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import TEXT

PIECE_FRAMES: Final = 64
VOICES: Final = ("joe",)
_HELD_FRAMES: Final = 4
_SPEEDS: Final = (0.25, 4.0)


@dataclass(slots=True)
class Talk:
    """One request: its text so far, cut into clauses, and how it is to be spoken."""

    splitter: ClauseSplitter
    delivery: Delivery
    text: list[str] = field(default_factory=list)

    def push(self, text: str) -> None:
        self.text.append(text)
        self.splitter.push(text)


class TalkerRunner:
    """A :class:`~voice_omni.model_runner.interface.BatchRunner`; one clause of each request per call."""

    def __init__(self, voice: Voice, acoustics: Acoustics, pronouncer: Pronouncer, options: TalkerOptions) -> None:
        self._voice = voice
        self._acoustics = acoustics
        self._pronouncer = pronouncer
        self._options = options

    def open(self, payload: StagePayload) -> Talk:
        """Raises :class:`OmniError` ``invalid_value`` for a speed, seed or voice that does not exist."""
        params = {name: value for name, value in payload.request.params.items() if value is not None}
        _check_voice(params.get("voice", self._options.voice))
        talk = Talk(ClauseSplitter(), self._delivery(params))
        whole = payload.request.inputs.get(TEXT)
        if whole is not None:
            talk.push(whole)
        return talk

    def cost(self, work: Work[Talk]) -> float:
        """Infinite, so that no call holds two requests: they would be computed one after the other, and the first
        would wait for the last before its sound could go on."""
        return math.inf

    def run(self, batch: Sequence[Work[Talk]]) -> Sequence[Outcome]:
        return [self._step(work.state, work.chunks, work.ended) for work in batch]

    def interrupt(self) -> None:
        self._acoustics.interrupt()

    def close(self, state: Talk) -> None:
        """Nothing outlives the state itself."""

    def _step(self, talk: Talk, chunks: Sequence[Chunk], ended: bool) -> Outcome:
        for chunk in chunks:
            talk.push(chunk.data[TEXT])
        if ended:
            talk.splitter.end()
        outcome = Outcome()
        clause = talk.splitter.next()
        if clause is not None:
            outcome.emits = [Emit(piece) for piece in self._speak(clause, talk.delivery)]
            outcome.more = True
        elif ended:
            outcome.result = {TEXT: "".join(talk.text)}
        return outcome

    def _speak(self, clause: Clause, delivery: Delivery) -> list[Data]:
        script = write_script(clause, self._pronouncer)
        if not script.phonemes:
            # Nothing to say, but the text must pass: a moment of silence carries it.
            silence = np.zeros((0, LATENT_CHANNELS), np.float32)
            return [_piece(silence, [[0, text] for _, text in script.marks], end=True, pause=FRAME_SAMPLES)]
        utterance = self._acoustics.speak(
            self._voice.phoneme_ids(script.phonemes),
            replace(delivery, seed=(*delivery.seed, clause.index)),
        )
        latents = utterance.latents
        if clause.after is Break.WORD:
            # The voice ends every clause with a silence, which would be heard as a hesitation inside a phrase.
            latents = latents[: utterance.starts[-1] + _HELD_FRAMES]
        marks = [(int(utterance.starts[position]), text) for position, text in script.marks]
        pieces = []
        for start in range(0, len(latents), PIECE_FRAMES):
            stop = start + PIECE_FRAMES
            end = stop >= len(latents)
            inside = [[at - start, text] for at, text in marks if start <= at < stop]
            pause = self._pause(clause.after, delivery.speed) if end else 0
            pieces.append(_piece(latents[start:stop], inside, end=end, pause=pause))
        return pieces

    def _pause(self, after: Break, speed: float) -> int:
        """Samples of silence, whole frames, shorter when speech is faster."""
        seconds = {
            Break.PHRASE: self._options.phrase_pause,
            Break.SENTENCE: self._options.sentence_pause,
            Break.PARAGRAPH: self._options.paragraph_pause,
        }.get(after, 0.0)
        return round(seconds / speed * SAMPLE_RATE / FRAME_SAMPLES) * FRAME_SAMPLES

    def _delivery(self, params: Data) -> Delivery:
        options = self._options
        return Delivery(
            speed=_speed(params.get("speed", options.speed)),
            noise_scale=self._voice.noise_scale if options.noise_scale is None else options.noise_scale,
            noise_w=self._voice.noise_w if options.noise_w is None else options.noise_w,
            seed=(_seed(params.get("seed", options.seed)),),
        )


def _speed(value: Any) -> float:
    low, high = _SPEEDS
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise OmniError("invalid_value", f"speed is {value!r}, expected a number from {low} to {high}", param="speed")
    return float(value)


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise OmniError("invalid_value", f"seed is {value!r}, expected a whole number from 0 to 2^63 - 1", param="seed")
    return value


def _check_voice(value: Any) -> None:
    if value not in VOICES:
        raise OmniError("invalid_value", f"voice is {value!r}, expected one of {', '.join(VOICES)}", param="voice")


def _piece(latents: Latents, marks: list[list[Any]], *, end: bool, pause: int) -> Data:
    return {"latents": latents, "end": end, "pause": pause, "marks": marks}


def build(context: StageContext) -> TalkerRunner:
    """The runner of the stage ``talker``; ``context.options`` are :class:`.options.TalkerOptions`."""
    voice = open_voice()
    # One thread: beside a thinker that is writing, two wait for each other and take longer (54 ms for a short sentence,
    # against 45; alone 38).
    return TalkerRunner(voice, Acoustics(voice, threads=1), Pronouncer.english(), context.options)
