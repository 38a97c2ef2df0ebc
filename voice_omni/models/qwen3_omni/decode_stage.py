"""The stage ``decode``: token ids to text while they come, and function calls told from what is said.

Stream output ``{"text": str}``, ``{"tool_call": dict}`` or, where the request is to transcribe, ``{"transcript": str,
"final": bool}``. Result ``{"text" | "transcript", "finish_reason", "usage"}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from voice_omni.model_runner.detokenizer import Detokenizer, TokenBytes
from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.model_runner.tool_calls import CallParser, Piece
from voice_omni.models.qwen3_omni.requests import TRANSCRIBE, forced_start, tools_of
from voice_omni.models.qwen3_omni.wire import TOKENS
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.proto.vocabulary import FINAL, FINISH_REASON, TEXT, TOOL_CALL, TRANSCRIPT, USAGE


@dataclass(slots=True)
class Answer:
    """``pieces``: what the forced start of a call has given already; ``told``: how the thinker has finished."""

    detokenizer: Detokenizer
    calls: CallParser | None
    transcribes: bool
    pieces: list[Piece] = field(default_factory=list)
    text: str = ""
    told: Data = field(default_factory=dict)


class DecodeRunner:
    """A :class:`~voice_omni.model_runner.interface.BatchRunner`; costs are tokens."""

    def __init__(self, tokens: TokenBytes) -> None:
        self._tokens = tokens

    def open(self, payload: StagePayload) -> Answer:
        request = payload.request
        tools = tools_of(request)
        calls = CallParser({tool["name"] for tool in tools}) if tools else None
        state = Answer(Detokenizer(self._tokens), calls, request.route == TRANSCRIBE)
        if calls is not None:
            state.pieces = calls.push(forced_start(request))
        return state

    def cost(self, work: Work[Answer]) -> float:
        return float(len(work.chunks))

    def run(self, batch: Sequence[Work[Answer]]) -> Sequence[Outcome]:
        return [self._next(work) for work in batch]

    def close(self, state: Answer) -> None:
        """Nothing outlives the state itself."""

    def _next(self, work: Work[Answer]) -> Outcome:
        state = work.state
        tokens = [token for chunk in work.chunks for token in chunk.data.get(TOKENS, ())]
        for chunk in work.chunks:
            state.told |= {name: chunk.data[name] for name in (FINISH_REASON, USAGE) if name in chunk.data}
        text = state.detokenizer.push(tokens) + (state.detokenizer.finish() if work.ended else "")
        try:
            pieces = self._read(state, text, work.ended)
        except OmniError as error:
            return Outcome(error=error)
        emits = [self._said(state, piece) for piece in pieces]
        if not work.ended:
            return Outcome(emits)
        if state.transcribes:
            emits.append(Emit({TRANSCRIPT: state.text.strip(), FINAL: True}))
        name = TRANSCRIPT if state.transcribes else TEXT
        return Outcome(emits, result={name: state.text, **state.told})

    def _read(self, state: Answer, text: str, ended: bool) -> list[Piece]:
        """Raises :class:`OmniError` ``invalid_tool_call``."""
        if state.calls is None:
            return [text] if text else []
        pieces, state.pieces = [*state.pieces, *state.calls.push(text)], []
        return [*pieces, *state.calls.finish(cut=state.told.get(FINISH_REASON) == "length")] if ended else pieces

    def _said(self, state: Answer, piece: Piece) -> Emit:
        if not isinstance(piece, str):
            return Emit({TOOL_CALL: asdict(piece)})
        state.text += piece
        if state.transcribes:
            return Emit({TRANSCRIPT: state.text.strip(), FINAL: False})
        return Emit({TEXT: piece})
