"""The thinker's stage: a prompt in pieces in, token ids out.

Prompt pieces come with the payloads and by streams, in the order in which the prompt reads; each is prefilled as soon
as it has come, so that little is left to do when the person has stopped speaking. The end of the streams closes the
prompt.

Stream output: :data:`~.wire.TOKENS` with :data:`~.wire.SPOKEN` to all; to the talker alone :data:`~.wire.USER`, as the
prompt is prefilled. Result ``{"tokens": list[int], "finish_reason", "usage"}``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from voice_omni.engines.interface import Feed, Piece, Row, RowOutput, Rows, Sampling
from voice_omni.model_runner.interface import Emit, Outcome, RowOutcome, Work
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.options import ThinkerOptions
from voice_omni.models.qwen3_omni.requests import params_of, seed_of
from voice_omni.models.qwen3_omni.talker_view import TalkerView
from voice_omni.models.qwen3_omni.wire import PIECES, SPOKEN, TOKENS, USER, piece_of
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import FINISH_REASON, USAGE

TALKER: Final = ("talker",)


class ThinkerParams(msgspec.Struct, frozen=True):
    """What a request may say about its answer; None leaves it to the stage's options."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None


@dataclass(slots=True)
class Thought:
    """One answer in the making. ``unread``: pieces whose inner rows the engine has not reported yet."""

    limit: int
    opening: list[Piece]
    view: TalkerView | None
    unread: deque[Piece] = field(default_factory=deque)
    hidden: list[Rows] = field(default_factory=list)
    prompt_tokens: int = 0
    tokens: list[int] = field(default_factory=list)


class ThinkerRunner:
    """A :class:`~voice_omni.model_runner.interface.StreamedRunner`. ``stop``: the tokens that end an answer."""

    def __init__(self, config: OmniConfig, options: ThinkerOptions, stop: frozenset[int]) -> None:
        self._config = config
        self._options = options
        self._stop = stop

    def open(self, payload: StagePayload) -> tuple[Thought, Row]:
        """Raises :class:`OmniError` ``invalid_value``."""
        request, options = payload.request, self._options
        params = params_of(request, ThinkerParams)
        limit = params.max_output_tokens or options.max_new_tokens
        sampling = Sampling(
            temperature=options.temperature if params.temperature is None else params.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
            seed=seed_of(request, params.seed),
        )
        opening = [piece for result in payload.results.values() for piece in _pieces([result])]
        view = TalkerView(self._config) if self._config.talker is not None else None
        row = Row(request.request_id, [], limit, self._stop, sampling, open=True, session=request.session_id)
        return Thought(limit, opening, view), row

    def push(self, work: Work[Thought]) -> RowOutcome:
        state = work.state
        pieces = [*state.opening, *_pieces(chunk.data for chunk in work.chunks)]
        state.opening = []
        state.unread += pieces
        state.prompt_tokens += sum(map(len, pieces))
        return RowOutcome(emits=self._read(state, None), feed=Feed(pieces, closed=work.ended))

    def advance(self, state: Thought, output: RowOutput) -> Outcome:
        outcome = Outcome(emits=self._read(state, output.hidden))
        if output.tokens:
            spoken = list(output.tokens)
            if not state.tokens and state.view is not None:
                spoken = [*state.view.close(), *spoken]
            state.tokens += output.tokens
            if len(state.tokens) >= state.limit:
                spoken.pop()
            outcome.emits.append(Emit({TOKENS: output.tokens, SPOKEN: spoken}))
        if output.finish is not None:
            usage = {"input_tokens": state.prompt_tokens, "output_tokens": len(state.tokens)}
            outcome.result = {TOKENS: state.tokens, FINISH_REASON: output.finish, USAGE: usage}
        return outcome

    def close(self, state: Thought) -> None:
        """Nothing outlives the state itself."""

    def _read(self, state: Thought, hidden: Rows | None) -> list[Emit]:
        """Show the talker what of the prompt has been computed."""
        view = state.view
        if view is None:
            return []
        if hidden is not None:
            state.hidden += list(hidden)
        emits = []
        while state.unread:
            piece = state.unread[0]
            count = 0 if piece.rows is None else len(piece.rows)
            if count > len(state.hidden):
                break
            state.unread.popleft()
            rows, state.hidden = state.hidden[:count], state.hidden[count:]
            width = self._config.thinker.text.hidden_size
            if part := view.read(piece, np.stack(rows) if rows else np.empty((0, width), np.float32)):
                emits.append(Emit({USER: part.data()}, TALKER))
        return emits


def _pieces(chunks: Iterable[Data]) -> list[Piece]:
    return [piece_of(data) for chunk in chunks for data in chunk.get(PIECES, ())]
