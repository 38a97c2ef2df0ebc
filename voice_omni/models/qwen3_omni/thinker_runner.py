"""The thinker's stage: a prompt in parts in, token ids out.

Segments of the prompt come from preprocessing, rows from the encoders; what can be read of them is prefilled at once,
so that little is left to do when the person has stopped speaking. The prompt is closed when it is complete.

Stream output: :data:`~.wire.TOKENS`, at the end with ``finish_reason`` and ``usage``, to the detokeniser; to the talker
:data:`~.wire.USER`, as the prompt is prefilled, and :data:`~.wire.SPOKEN`. Result ``{"finish_reason", "usage"}``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from voice_omni.engines.interface import Feed, Piece, Row, RowOutput, Rows, Sampling
from voice_omni.model_runner.interface import Emit, Outcome, RowOutcome, Work
from voice_omni.model_runner.one_by_one import one_by_one
from voice_omni.model_runner.tool_calls import CLOSE, OPEN
from voice_omni.models.qwen3_omni.assembly import Assembly
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.options import ThinkerOptions
from voice_omni.models.qwen3_omni.requests import TRANSCRIBE, forced_start, params_of, seed_of, tools_of
from voice_omni.models.qwen3_omni.talker_view import TalkerView
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.models.qwen3_omni.wire import KEPT, SPOKEN, TOKENS, USER
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import StagePayload
from voice_omni.proto.vocabulary import FINISH_REASON, USAGE

DECODE: Final = ("decode",)
TALKER: Final = ("talker",)


class ThinkerParams(msgspec.Struct, frozen=True):
    """What a request may say about its answer; None leaves it to the stage's options."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class CallTokens:
    """The tokens around a function call; None where the vocabulary has none."""

    opening: int | None = None
    closing: int | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> CallTokens:
        return cls(tokenizer.id_of(OPEN), tokenizer.id_of(CLOSE))


@dataclass(slots=True)
class Reading:
    """What the talker is shown of the prompt while it is prefilled, and what must be known to take a part of it back.

    ``unread``: pieces, with their first positions, whose inner rows the engine has not reported yet. ``before``: for
    each piece that was shown its first position, that in the talker's prompt, and the view as it was then. ``hidden``:
    float32 ``[n, width]``, what has been reported and not shown.
    """

    view: TalkerView
    hidden: Rows
    unread: deque[tuple[int, Piece]] = field(default_factory=deque)
    before: list[tuple[int, int, TalkerView]] = field(default_factory=list)
    shown: int = 0
    void: bool = False

    def take_back(self, kept: int) -> None:
        while self.unread and self.unread[-1][0] >= kept:
            self.unread.pop()
        while self.before and self.before[-1][0] >= kept:
            _, self.shown, self.view = self.before.pop()
            self.void = True

    def show(self, hidden: Rows | None) -> list[Emit]:
        """``hidden``: the inner rows that the engine has reported since."""
        if hidden is not None:
            self.hidden = np.concatenate((self.hidden, hidden))
        emits = []
        while self.unread:
            start, piece = self.unread[0]
            count = 0 if piece.rows is None else len(piece.rows)
            if count > len(self.hidden):
                break
            self.unread.popleft()
            rows, self.hidden = self.hidden[:count], self.hidden[count:]
            self.before.append((start, self.shown, self.view.fork()))
            if part := self.view.read(piece, rows):
                kept = {KEPT: self.shown} if self.void else {}
                self.void = False
                self.shown += len(part.tokens)
                emits.append(Emit({USER: part.data(), **kept}, TALKER))
        # A part of an array holds all of it.
        self.hidden = self.hidden.copy()
        return emits


@dataclass(slots=True)
class Thought:
    """One answer in the making. ``calling``: a function call is being written, which is not to be said."""

    limit: int
    reading: Reading | None
    tools: bool
    calling: bool
    assembly: Assembly = field(default_factory=Assembly)
    closed: bool = False
    prompt_tokens: int = 0
    tokens: int = 0
    begun: bool = False


class ThinkerRunner:
    """A :class:`~voice_omni.model_runner.interface.StreamedRunner`. ``stop``: the tokens that end an answer,
    unless the options say that its length alone does."""

    def __init__(
        self, config: OmniConfig, options: ThinkerOptions, stop: frozenset[int], calls: CallTokens | None = None
    ) -> None:
        self._config = config
        self._options = options
        self._stop = frozenset() if options.ignore_eos else stop
        self._calls = calls or CallTokens()

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
        if request.route == TRANSCRIBE:
            sampling = Sampling()
        speaks = self._config.talker is not None and request.route != TRANSCRIBE
        nothing = np.empty((0, self._config.thinker.text.hidden_size), np.float32)
        reading = Reading(TalkerView(self._config), nothing) if speaks else None
        row = Row(request.request_id, [], limit, self._stop, sampling, open=True, session=request.session_id)
        return Thought(limit, reading, bool(tools_of(request)), bool(forced_start(request))), row

    def push(self, batch: Sequence[Work[Thought]]) -> list[RowOutcome]:
        return one_by_one(self._push, batch)

    def _push(self, work: Work[Thought]) -> RowOutcome:
        state = work.state
        for chunk in work.chunks:
            state.assembly.take(chunk.data)
        if state.closed:
            return RowOutcome()
        ready = state.assembly.ready()
        reading = state.reading
        if reading is not None:
            if ready.kept is not None:
                reading.take_back(ready.kept)
            start = ready.start if ready.kept is None else ready.kept
            for piece in ready.pieces:
                reading.unread.append((start, piece))
                start += len(piece)
        state.prompt_tokens = ready.start + sum(map(len, ready.pieces))
        state.closed = state.assembly.complete
        if work.ended and not state.closed:
            raise OmniError("internal_error", "the thinker's prompt is not complete")
        emits = [] if reading is None else reading.show(None)
        return RowOutcome(emits=emits, feed=Feed(ready.pieces, closed=state.closed, kept=ready.kept))

    def advance(self, state: Thought, output: RowOutput) -> Outcome:
        reading = state.reading
        state.tokens += len(output.tokens)
        to_talker = [] if reading is None else reading.show(output.hidden)
        if reading is not None and (spoken := self._spoken(state, output.tokens)):
            if not state.begun:
                state.begun = True
                spoken = [*reading.view.close(), *spoken]
            # With the end of the prompt, where that has come with them: the talker then prefills both at once.
            data = to_talker.pop().data if to_talker else {}
            to_talker.append(Emit({**data, SPOKEN: spoken}, TALKER))
        outcome = Outcome(emits=to_talker)
        told = {}
        if output.finish is not None:
            usage = {"input_tokens": state.prompt_tokens, "output_tokens": state.tokens}
            told = {FINISH_REASON: output.finish, USAGE: usage}
            outcome.result = told
        if output.tokens or told:
            outcome.emits.append(Emit({TOKENS: output.tokens, **told}, DECODE))
        return outcome

    def close(self, state: Thought) -> None:
        """Nothing outlives the state itself."""

    def _spoken(self, state: Thought, tokens: Sequence[int]) -> list[int]:
        """What of new tokens is to be said, without the last one that the limit allows."""
        spoken = []
        for token in tokens[:-1] if state.tokens >= state.limit else tokens:
            if state.tools and token == self._calls.opening:
                state.calling = True
            elif state.calling:
                state.calling = token != self._calls.closing
            else:
                spoken.append(token)
        return spoken
