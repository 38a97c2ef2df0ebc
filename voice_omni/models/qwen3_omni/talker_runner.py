"""The talker's stage: the thinker's view of the person's turns and the answer's token ids in, codec frames out.

The person's turns are prefilled as they come. With the answer's first token the prompt is complete, and speech begins;
each frame then takes one more token of text, waits while the thinker is late, and gets padding once the text has ended.

Stream output: :data:`~.wire.CODES`, whole frames. Result ``{"frames": int, "finish_reason": str}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from voice_omni.engines.interface import Feed, Piece, Row, RowOutput, Sampling
from voice_omni.model_runner.interface import Emit, Outcome, RowOutcome, Work
from voice_omni.model_runner.one_by_one import one_by_one
from voice_omni.models.qwen3_omni.config import TalkerConfig
from voice_omni.models.qwen3_omni.options import TalkerOptions
from voice_omni.models.qwen3_omni.requests import params_of, seed_of
from voice_omni.models.qwen3_omni.talker_prompt import HEADER_TOKENS, TalkerPrompt, speaker_of, suppressed
from voice_omni.models.qwen3_omni.wire import CODES, KEPT, SPOKEN, USER, UserPart
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import FINISH_REASON

FRAMES: Final = "frames"


class TalkerParams(msgspec.Struct, frozen=True):
    """What a request may say about the voice; None leaves it to the stage's options."""

    voice: str | None = None
    seed: int | None = None


@dataclass(slots=True)
class Speech:
    """One answer being spoken. ``text``: what has come of the answer's turn and is not in the row yet.
    ``heard``: positions of the person's turns.
    """

    speaker: int
    text: list[int] = field(default_factory=list)
    begun: bool = False
    heard: int = 0
    frames: int = 0


class TalkerRunner:
    """A :class:`~voice_omni.model_runner.interface.StreamedRunner`. ``frame_s``: how long a codec frame is heard."""

    def __init__(self, config: TalkerConfig, options: TalkerOptions, prompt: TalkerPrompt, frame_s: float) -> None:
        self._config = config
        self._options = options
        self._prompt = prompt
        self._frame_s = frame_s
        self._stop = frozenset({config.codec_eos_token_id})
        self._suppressed = suppressed(config, ignore_eos=options.ignore_eos)
        speaker_of(config, options.voice)

    def open(self, payload: StagePayload) -> tuple[Speech, Row]:
        """Raises :class:`OmniError` ``invalid_value``."""
        request, options = payload.request, self._options
        params = params_of(request, TalkerParams)
        sampling = Sampling(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
            seed=seed_of(request, params.seed),
            suppress=self._suppressed,
        )
        row = Row(
            request.request_id,
            [],
            options.max_new_tokens,
            self._stop,
            sampling,
            open=True,
            padding=self._prompt.padding,
            session=request.session_id,
        )
        return Speech(speaker_of(self._config, params.voice or options.voice)), row

    def push(self, batch: Sequence[Work[Speech]]) -> list[RowOutcome]:
        heard = [self._parts(work) for work in batch]
        rows = iter(self._prompt.user([part for parts in heard if not isinstance(parts, Exception) for part in parts]))
        pieces = [
            parts
            if isinstance(parts, Exception)
            else [Piece(part.tokens, next(rows), positions=part.positions) for part in parts]
            for parts in heard
        ]
        return one_by_one(self._push, batch, pieces)

    def _parts(self, work: Work[Speech]) -> list[UserPart] | Exception:
        """Those of the person's turns among the chunks, or why they cannot be computed: that fails one request."""
        try:
            parts = [UserPart(**chunk.data[USER]) for chunk in work.chunks if USER in chunk.data]
            for part in parts:
                self._prompt.check(part)
        except Exception as error:  # noqa: BLE001 - told to the request whose it is
            return error
        return parts

    def _push(self, work: Work[Speech], heard: list[Piece] | Exception) -> RowOutcome:
        """``heard``: each part of the person's turns among the chunks."""
        if isinstance(heard, Exception):
            raise heard
        state = work.state
        pieces, kept = self._heard(work, heard)
        for chunk in work.chunks:
            state.text += chunk.data.get(SPOKEN, ())
        closed = not state.begun and len(state.text) > HEADER_TOKENS
        if closed:
            header, state.text = state.text[: HEADER_TOKENS + 1], state.text[HEADER_TOKENS + 1 :]
            pieces.append(self._answer(header, state.speaker))
            state.begun = True
        if not state.begun:
            return RowOutcome(feed=Feed(pieces, kept=kept), result=self._result(state, "stop") if work.ended else None)
        text, state.text = self._prompt.text(state.text), []
        conditions = np.concatenate((text, self._prompt.end)) if work.ended else text
        return RowOutcome(feed=Feed(pieces, closed, kept, conditions, work.ended))

    def advance(self, state: Speech, output: RowOutput) -> Outcome:
        outcome = Outcome()
        if output.frames:
            state.frames += len(output.frames)
            outcome.played_s = len(output.frames) * self._frame_s
            outcome.emits.append(Emit({CODES: np.array(output.frames, np.int16)}))
        if output.finish is not None:
            outcome.result = self._result(state, output.finish)
        return outcome

    def close(self, state: Speech) -> None:
        """Nothing outlives the state itself."""

    def _heard(self, work: Work[Speech], heard: Sequence[Piece]) -> tuple[list[Piece], int | None]:
        """New parts of the person's turns, and how much of the earlier ones stays; None: all."""
        state = work.state
        fed, kept = state.heard, None
        pieces: list[Piece] = []
        with_parts = (chunk for chunk in work.chunks if USER in chunk.data)
        for chunk, piece in zip(with_parts, heard, strict=True):
            border = chunk.data.get(KEPT, state.heard)
            while state.heard > max(border, fed):
                state.heard -= len(pieces.pop())
            if border < fed:
                kept = fed = state.heard = border
            pieces.append(piece)
            state.heard += len(piece)
        return pieces, kept

    def _answer(self, tokens: Sequence[int], speaker: int) -> Piece:
        rows = self._prompt.answer(tokens[:-1], tokens[-1], speaker)
        return Piece([*tokens[:-1], *[speaker] * (len(rows) - len(tokens)), tokens[-1]], rows)

    def _result(self, state: Speech, finish: str) -> Data:
        return {FRAMES: state.frames, FINISH_REASON: finish}
