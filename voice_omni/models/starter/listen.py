"""The encoder: speech to text while the person speaks, so that little is left to do at the end.

Input stream ``{"audio": float32 [n]}``, 16 kHz. Stream output to the client ``{"transcript": str, "final": bool}``: all
that is known so far. Result ``{"transcript": str}``, empty if no words were heard.

Three kinds of passes: segments that a pause has closed, so that long speech stays bounded; the open segment as soon as
the person falls silent, which is the final pass if they stay so; and the open segment now and then, to show what is
being said. The result depends on the sound alone: on its segments, not on when passes ran.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.models.starter.listen_mel import FRAMES_PER_SECOND, HOP, SAMPLE_RATE, Floats
from voice_omni.models.starter.listen_segments import Segment, Segmenter, frame_levels
from voice_omni.models.starter.listen_whisper import Recogniser
from voice_omni.models.starter.options import EncoderOptions
from voice_omni.models.starter.weights import WHISPER_TINY_EN
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.payload import CLIENT, StagePayload
from voice_omni.proto.vocabulary import AUDIO, FINAL, TRANSCRIPT
from voice_omni.weights import fetch

_REMEMBERED: Final = 64


@dataclass(slots=True)
class Hearing:
    """One request: the sound that may still be needed, and what was understood.

    ``samples`` begins at frame ``base``. ``closed`` segments wait for their pass; ``tail`` is the latest pass over the
    open one.
    """

    segmenter: Segmenter = field(default_factory=Segmenter)
    samples: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    base: int = 0
    measured: int = 0
    closed: deque[Segment] = field(default_factory=deque)
    texts: list[str] = field(default_factory=list)
    tail: tuple[Segment, str] | None = None
    shown: str = ""

    def push(self, chunks: Sequence[Floats]) -> None:
        self.samples = np.concatenate([self.samples, *chunks])
        levels = frame_levels(self.samples[(self.measured - self.base) * HOP :])
        self.measured += len(levels)
        self.closed += self.segmenter.push(levels.tolist())
        self._forget(self.closed[0].start if self.closed else self.segmenter.oldest)

    def sound(self, segment: Segment) -> Floats:
        return self.samples[(segment.start - self.base) * HOP : (segment.end - self.base) * HOP]

    def understood(self, segment: Segment, text: str) -> None:
        if self.closed and segment == self.closed[0]:
            self.closed.popleft()
            self.texts.append(text)
            self.tail = None
        else:
            self.tail = (segment, text)

    @property
    def transcript(self) -> str:
        open_text = self.tail[1] if self.tail else ""
        return " ".join(text for text in (*self.texts, open_text) if text)

    def _forget(self, oldest: int) -> None:
        self.samples = self.samples[(oldest - self.base) * HOP :]
        self.base = oldest


class EncoderRunner:
    """A :class:`~voice_omni.model_runner.interface.BatchRunner`; at most one pass per request and call."""

    def __init__(self, recogniser: Recogniser, options: EncoderOptions) -> None:
        self._recogniser = recogniser
        self._interim_frames = round(options.interim_s * FRAMES_PER_SECOND)
        self._known = _Memory(_REMEMBERED)

    def open(self, payload: StagePayload) -> Hearing:
        return Hearing()

    def cost(self, work: Work[Hearing]) -> float:
        """Seconds of sound that a pass would be about, at most."""
        new = sum(len(chunk.data[AUDIO]) for chunk in work.chunks)
        return (len(work.state.samples) + new) / SAMPLE_RATE

    def run(self, batch: Sequence[Work[Hearing]]) -> Sequence[Outcome]:
        for work in batch:
            work.state.push([chunk.data[AUDIO] for chunk in work.chunks])
        # Who waits for an answer does not wait for what another one is only shown.
        interim = not any(work.ended for work in batch)
        passes = [(work.state, segment) for work in batch if (segment := self._next(work.state, work.ended, interim))]
        texts = self._recognise([state.sound(segment) for state, segment in passes])
        for (state, segment), text in zip(passes, texts, strict=True):
            state.understood(segment, text)
        return [self._outcome(work.state, work.ended) for work in batch]

    def close(self, state: Hearing) -> None:
        """Nothing outlives the state itself."""

    def _next(self, state: Hearing, ended: bool, interim: bool) -> Segment | None:
        """The segment to recognise now."""
        if state.closed:
            return state.closed[0]
        tail = state.segmenter.tail()
        if tail is None or (state.tail and state.tail[0] == tail):
            return None
        if ended or state.segmenter.settled:
            return tail
        done = state.tail[0].end if state.tail else tail.start
        # Passes over more sound take longer: they come less often, so that their share of the time stays the same.
        due = tail.end - done >= max(self._interim_frames, tail.frames // 4)
        # Not in a silence, which may be the end: the final pass, due in a moment, would have to wait for this one.
        return tail if interim and due and state.segmenter.voiced else None

    def _outcome(self, state: Hearing, ended: bool) -> Outcome:
        finished = ended and self._next(state, ended, False) is None
        text = state.transcript
        outcome = Outcome(more=bool(state.closed) or (ended and not finished))
        if finished:
            outcome.result = {TRANSCRIPT: text}
        if finished or text != state.shown:
            state.shown = text
            outcome.emits.append(Emit({TRANSCRIPT: text, FINAL: finished}, targets=(CLIENT,)))
        return outcome

    def _recognise(self, sounds: list[Floats]) -> list[str]:
        keys = [hashlib.blake2b(sound.tobytes(), digest_size=16).digest() for sound in sounds]
        new = [i for i, key in enumerate(keys) if key not in self._known]
        for i, text in zip(new, self._recogniser.recognise([sounds[i] for i in new]), strict=True):
            self._known.keep(keys[i], text)
        return [self._known[key] for key in keys]


class _Memory:
    """The texts of sounds recognised lately, by the sound's digest.

    A person who goes on after a false pause is heard again from the start of the utterance; the segments that were
    recognised before cost nothing then. Keyed by content, it cannot change a result.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._texts: OrderedDict[bytes, str] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        return key in self._texts

    def __getitem__(self, key: bytes) -> str:
        self._texts.move_to_end(key)
        return self._texts[key]

    def keep(self, key: bytes, text: str) -> None:
        self._texts[key] = text
        while len(self._texts) > self._size:
            self._texts.popitem(last=False)


def build(context: StageContext) -> EncoderRunner:
    """The runner of the stage ``encoder``; ``context.options`` are :class:`.options.EncoderOptions`."""
    options: EncoderOptions = context.options
    recogniser = Recogniser(
        fetch(WHISPER_TINY_EN),
        threads=context.threads,
        padding=round(options.padding_s * FRAMES_PER_SECOND),
        no_speech=options.no_speech_threshold,
    )
    return EncoderRunner(recogniser, options)
